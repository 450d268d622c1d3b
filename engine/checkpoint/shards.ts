/**
 * @file A model's weights and Adam's moments in the Hugging Face layout: `<stem>.safetensors`, or shards `<stem>-0000i-of-0000n.safetensors` and
 * `<stem>.safetensors.index.json`. A file holds tensors of at most `shardBytes` together, or a single larger one: only Adam's moments are split.
 * Equal state gives equal bytes. A file's bytes are written when they are asked for, so that the caller holds one file at a time.
 */
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { type AdamState, freshAdamState } from "./adam-state.ts";
import type { ParameterLayout } from "./parameters.ts";
import {
  type NamedTensor,
  readHeader,
  readTensor,
  storedBytes,
  type WrittenType,
  writeSafetensors,
} from "./safetensors.ts";
import { indexFileOf, locateTensors, MODEL_FILE } from "./tensors.ts";
import { namedTensors } from "./weights.ts";

export const OPTIMIZER_FILE = "optimizer.safetensors";
/** Matches the names of the optimizer's files: one, or shards and their index. */
export const OPTIMIZER_FILE_NAMES = /^optimizer(-\d+-of-\d+)?\.safetensors(\.index\.json)?$/;
/** Well below 2 GiB, the most that a hash or a socket takes in one call. */
export const SHARD_BYTES = 2 ** 30;
/** The longest typed array of Node.js 20, in elements; newer versions have longer ones. */
const MAXIMUM_LENGTH = 2 ** 32;
/** An adapter is one file, however large, and files of this size or more cannot be written or read in one call. */
const MAXIMUM_ADAPTER_BYTES = 2 ** 31;
/** Bytes reserved for a file's header. */
const HEADER_ROOM = 2 ** 20;

/** The files of a checkpoint but those of its optimizer. */
export const withoutOptimizer = (files: CheckpointFiles): CheckpointFiles =>
  new Map([...files].filter(([name]) => !OPTIMIZER_FILE_NAMES.test(name)));

/** A file that a state is saved as. */
export interface PlannedFile {
  readonly name: string;
  /** The file's bytes, from the state as it is now. */
  write(): Uint8Array;
}

type Tensors = readonly (readonly [name: string, tensor: NamedTensor])[];

/**
 * Refuses to train more parameters than fit into one vector, a tensor too large to save as one array of bytes, or an adapter too large for its
 * file. The layout is that of the trained parameters.
 */
export function refuseUnsavable({ parameters, length }: ParameterLayout, lora: LoraConfig | null): void {
  if (lora) {
    refuseLargeAdapter(length, lora);
    return;
  }
  const largest = parameters.reduce((a, b) => (b.length > a.length ? b : a));
  const isFine = length < MAXIMUM_LENGTH && 4 * largest.length < MAXIMUM_LENGTH - HEADER_ROOM;
  if (isFine) return;
  const why =
    length < MAXIMUM_LENGTH
      ? `'${largest.name}' has ${largest.length} of them, more than fit into an array of 4 GiB`
      : `an array holds fewer than ${MAXIMUM_LENGTH}`;
  throw new MgrpoError(
    "engine-unsupported",
    `this engine cannot train all ${length} parameters: ${why}: train an adapter (lora={}), or use a tinker policy`,
  );
}

function refuseLargeAdapter(length: number, { rank, targets }: LoraConfig): void {
  if (4 * length < MAXIMUM_ADAPTER_BYTES - HEADER_ROOM) return;
  throw new MgrpoError(
    "engine-unsupported",
    `this engine cannot train an adapter of rank ${rank} on ${targets.join(", ")}: its ${length} parameters do not fit into a file of 2 GiB: lower lora.rank, or name fewer lora.targets`,
  );
}

/** The bytes of every file, all in memory at once. */
export const serializeFiles = (files: readonly PlannedFile[]): Map<string, Uint8Array> =>
  new Map(files.map(({ name, write }) => [name, write()]));

/** The files of all parameters of a layout. */
export function planModelFiles(
  layout: ParameterLayout,
  weights: Float32Array,
  dtype: WrittenType = "F32",
  shardBytes = SHARD_BYTES,
): PlannedFile[] {
  return planFiles(MODEL_FILE, namedTensors(layout, weights), { format: "pt" }, dtype, shardBytes);
}

/** Tensors `m` and `v`, flat in parameter order, or pieces `m.0`, `m.1`, … of them; the number of updates is in each header. */
export function planOptimizerFiles({ m, v, step }: AdamState, shardBytes = SHARD_BYTES): PlannedFile[] {
  const isWhole = m.byteLength + v.byteLength <= shardBytes;
  const tensors = Object.entries({ m, v }).flatMap(([name, values]) =>
    isWhole ? [[name, flat(values)] as const] : piecesOf(name, values, Math.max(1, Math.floor(shardBytes / 4))),
  );
  return planFiles(OPTIMIZER_FILE, tensors, { step: String(step) }, "F32", shardBytes);
}

const flat = (values: Float32Array): NamedTensor => ({ shape: [values.length], values });

function piecesOf(name: string, values: Float32Array, size: number): Tensors {
  const count = Math.ceil(values.length / size);
  return Array.from({ length: count }, (_, i) => [`${name}.${i}`, flat(values.subarray(i * size, (i + 1) * size))]);
}

/** Adam's state; a fresh one if the checkpoint has none. */
export function readOptimizer(files: CheckpointFiles, length: number): AdamState {
  const isThere = files.has(OPTIMIZER_FILE) || files.has(indexFileOf(OPTIMIZER_FILE));
  const state = freshAdamState(length);
  if (!isThere) return state;
  const locations = locateTensors(files, OPTIMIZER_FILE);
  const steps = new Set<number>();
  const filled = { m: 0, v: 0 };
  for (const name of ["m", "v"] as const) {
    for (let i = 0; filled[name] < length; i++) {
      const location = locations.get(i === 0 && locations.has(name) ? name : `${name}.${i}`);
      const end = filled[name] + (location?.entry.length ?? 0);
      if (!location || end > length) break;
      readTensor(location.file, location.entry, state[name].subarray(filled[name], end));
      filled[name] = end;
      steps.add(Number(readHeader(location.file, location.fileName).metadata["step"]));
    }
  }
  const [step = Number.NaN] = steps;
  if (filled.m === length && filled.v === length && steps.size === 1 && Number.isInteger(step))
    return { ...state, step };
  throw new MgrpoError(
    "checkpoint-damaged",
    `${OPTIMIZER_FILE}: not the state of this model (${length} parameters): remove the optimizer files to start from zero moments`,
  );
}

/** One file if everything fits into it, otherwise shards and their index. */
function planFiles(
  single: string,
  tensors: Tensors,
  metadata: Readonly<Record<string, string>>,
  dtype: WrittenType,
  shardBytes: number,
): PlannedFile[] {
  const shards = splitIntoShards(tensors, dtype, shardBytes);
  const write = (shard: Tensors) => () => writeSafetensors(new Map(shard), metadata, dtype);
  if (shards.length <= 1) return [{ name: single, write: write(tensors) }];
  const padded = (n: number) => String(n).padStart(5, "0");
  const stem = single.replace(/\.safetensors$/, "");
  const names = shards.map((_, i) => `${stem}-${padded(i + 1)}-of-${padded(shards.length)}.safetensors`);
  const total = tensors.reduce((sum, [, { values }]) => sum + storedBytes(values, dtype), 0);
  const weightMap = Object.fromEntries(shards.flatMap((shard, i) => shard.map(([name]) => [name, names[i]])));
  const index = `${JSON.stringify({ metadata: { total_size: total }, weight_map: weightMap }, null, 2)}\n`;
  return [
    ...shards.map((shard, i) => ({ name: names[i] ?? single, write: write(shard) })),
    { name: indexFileOf(single), write: () => new TextEncoder().encode(index) },
  ];
}

/** Tensors in order; a shard is full when the next tensor would take it over the limit. */
function splitIntoShards(tensors: Tensors, dtype: WrittenType, shardBytes: number): Tensors[] {
  const shards: (readonly [string, NamedTensor])[][] = [];
  let room = 0;
  for (const tensor of tensors) {
    const bytes = storedBytes(tensor[1].values, dtype);
    const last = shards.at(-1);
    if (last && bytes <= room) last.push(tensor);
    else shards.push([tensor]);
    room = (last && bytes <= room ? room : shardBytes) - bytes;
  }
  return shards;
}
