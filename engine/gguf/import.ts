/**
 * @file Converts a GGUF file to a Hugging Face folder. Tensors are converted one at a time, so only one is in memory, and the
 * folder appears atomically: complete or not at all.
 */
import { mkdir, open, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { MgrpoError } from "../../core/errors.ts";
import { readBytes } from "../checkpoint/files.ts";
import { removeLeftovers, temporaryName } from "../checkpoint/leftovers.ts";
import { toBfloat16, type WrittenType } from "../checkpoint/safetensors.ts";
import { dequantize } from "./dequantize.ts";
import { type GgufModel, type GgufTensor, readGguf } from "./metadata.ts";
import { tokenizerFiles } from "./tokenizer.ts";

const ELEMENT_BYTES: Readonly<Record<WrittenType, number>> = { F32: 4, BF16: 2 };
/** Each type's name for `torch_dtype` in config.json. */
const TORCH_DTYPE: Readonly<Record<WrittenType, string>> = { F32: "float32", BF16: "bfloat16" };

export interface ImportedModel {
  readonly architecture: string;
  readonly parameters: number;
  /** The tensor types found, such as Q4_1. */
  readonly types: readonly string[];
}

/**
 * Writes `folder`, which must not exist, with config.json, generation_config.json, tokenizer, chat template and model.safetensors.
 * @param dtype of the weights written; BF16 halves the folder's size but rounds.
 * @throws MgrpoError `not-found`, `checkpoint-damaged`, `tokenizer-damaged` or `engine-unsupported`.
 */
export async function importGguf(path: string, folder: string, dtype: WrittenType = "F32"): Promise<ImportedModel> {
  const size = await ggufBytes(path);
  const model = await readGguf(path, size);
  const texts = ggufTexts(path, size, model, dtype);
  const [parent, prefix] = [dirname(folder), `.${basename(folder)}.`];
  const temporary = join(parent, temporaryName(prefix));
  try {
    await mkdir(parent, { recursive: true });
    removeLeftovers(parent, prefix);
    await mkdir(temporary, { recursive: true });
    for (const [name, text] of texts) await writeFile(join(temporary, name), text);
    await writeWeights(path, size, model.tensors, join(temporary, "model.safetensors"), dtype);
    await rename(temporary, folder);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
  return {
    architecture: model.architecture,
    parameters: model.tensors.reduce((sum, tensor) => sum + elementsOf(tensor), 0),
    types: [...new Set(model.tensors.map(({ type }) => type.name))],
  };
}

/** The file's size. @throws MgrpoError `not-found` if there is no such file, or if it is a folder. */
export async function ggufBytes(path: string): Promise<number> {
  const stats = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    const reason = cause.code === "ENOENT" ? "no such file" : `cannot be read (${cause.message})`;
    throw new MgrpoError("not-found", `${path}: ${reason}`, { cause });
  });
  if (stats.isDirectory()) throw new MgrpoError("not-found", `${path} is a folder: name the .gguf file in it`);
  return stats.size;
}

/** The folder's files other than weights. `size`: of the GGUF file, in bytes. `dtype`: of the weights written. */
export function ggufTexts(
  path: string,
  size: number,
  model: GgufModel,
  dtype: WrittenType = "F32",
): ReadonlyMap<string, string> {
  const config = { ...model.config, torch_dtype: TORCH_DTYPE[dtype], ...ropeScalingOf(path, size, model) };
  return new Map([
    ...tokenizerFiles(path, model.metadata),
    ["config.json", jsonOf(config)],
    ["generation_config.json", jsonOf(generationConfigOf(model))],
  ]);
}

const jsonOf = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
const elementsOf = ({ shape }: GgufTensor): number => shape.reduce((product, count) => product * count, 1);

function generationConfigOf({ config }: GgufModel): object {
  const { bos_token_id, eos_token_id, pad_token_id } = config;
  return { bos_token_id, eos_token_id, pad_token_id };
}

async function writeWeights(
  path: string,
  size: number,
  tensors: readonly GgufTensor[],
  target: string,
  dtype: WrittenType,
): Promise<void> {
  let offset = 0;
  const entries = tensors.map((tensor) => {
    const end = offset + elementsOf(tensor) * ELEMENT_BYTES[dtype];
    const entry = [tensor.name, { dtype, shape: tensor.shape, data_offsets: [offset, end] }] as const;
    offset = end;
    return entry;
  });
  const header = new TextEncoder().encode(
    JSON.stringify({ __metadata__: { format: "pt" }, ...Object.fromEntries(entries) }),
  );
  const padded = new Uint8Array(8 + Math.ceil(header.length / 8) * 8).fill(32);
  new DataView(padded.buffer).setBigUint64(0, BigInt(padded.length - 8), true);
  padded.set(header, 8);
  const file = await open(target, "w");
  try {
    await file.writeFile(padded);
    for (const tensor of tensors) {
      const values = valuesOf({ path, bytes: size }, tensor);
      const numbers = dtype === "F32" ? values : toBfloat16(values);
      await file.writeFile(new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength));
    }
  } finally {
    await file.close();
  }
}

type GgufFile = { readonly path: string; readonly bytes: number };

function valuesOf(source: GgufFile, tensor: GgufTensor): Float32Array {
  const values = dequantize(tensor.type, readBytes(source, tensor.begin, new Uint8Array(tensor.bytes)));
  return tensor.interleavedHeads > 0 ? deinterleaved(values, tensor) : values;
}

/**
 * llama.cpp rotates adjacent rows of a head, transformers rows half a head apart: row 2i + j of a head goes to row j * half + i (j = 0, 1).
 */
function deinterleaved(values: Float32Array, { shape, interleavedHeads }: GgufTensor): Float32Array {
  const [rows = 0, columns = 1] = shape;
  const headRows = rows / interleavedHeads;
  const half = headRows / 2;
  const moved = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    const [head, within] = [Math.floor(row / headRows), row % headRows];
    const to = head * headRows + (within % 2) * half + (within >> 1);
    moved.set(values.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return moved;
}

/** Llama 3.1's constants; the file contains only the factors derived from them. */
const LLAMA3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };

/** The `rope_scaling` of a Llama 3.1 or later model. Refuses factors that do not match its formula. */
function ropeScalingOf(path: string, size: number, { ropeFactors, config }: GgufModel): { rope_scaling?: object } {
  if (!ropeFactors) return {};
  const bytes = readBytes({ path, bytes: size }, ropeFactors.begin, new Uint8Array(ropeFactors.bytes));
  const factors = dequantize(ropeFactors.type, bytes);
  const factor = Math.max(...factors);
  const theta = Number(config["rope_theta"]);
  const matchesFormula = factors.every((found, i) => {
    const expected = llama3Factor(2 * Math.PI * theta ** (i / factors.length), factor);
    return Math.abs(found - expected) <= 1e-3 * expected;
  });
  if (matchesFormula) return { rope_scaling: { rope_type: "llama3", factor, ...LLAMA3 } };
  throw new MgrpoError(
    "engine-unsupported",
    `${path}: its rope_freqs are not those of Llama 3.1: use the model's Hugging Face folder`,
  );
}

/** The factor by which a rotation of this wavelength is slowed down. */
function llama3Factor(wavelength: number, factor: number): number {
  const { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: original } = LLAMA3;
  if (wavelength < original / high) return 1;
  if (wavelength > original / low) return factor;
  const smooth = (original / wavelength - low) / (high - low);
  return 1 / ((1 - smooth) / factor + smooth);
}
