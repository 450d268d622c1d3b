/**
 * @file The import of GGUF files: dequantized values match gguf-py, log-probs and token ids match transformers on the same file
 * (test/fixtures/gguf/make.py), and a file that cannot be imported is refused before anything is written. Also BF16 output, and tokenizers
 * made from metadata.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { dequantize, GGML_TYPES } from "../../engine/gguf/dequantize.ts";
import { importGguf } from "../../engine/gguf/import.ts";
import { tokenizerFiles } from "../../engine/gguf/tokenizer.ts";
import { openTokenizer, openTrainer, readCheckpoint } from "../../engine/index.ts";

const FIXTURES = join(import.meta.dirname, "../fixtures/gguf");
const json = (name: string) => JSON.parse(readFileSync(join(FIXTURES, name), "utf8"));
const expected: { tokens: number[]; logProbs: number[]; texts: string[]; ids: number[][] } = json("expected.json");
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "mgrpo-gguf-"));
  await importGguf(join(FIXTURES, "tiny.gguf"), join(folder, "tiny"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const blocks: Record<string, { type: number; bytes: string; values: string }> = json("blocks.json");

test.each(Object.entries(blocks))(
  "%s dequantizes to the values of gguf-py, bit for bit",
  (name, { type, bytes, values }) => {
    const ggmlType = GGML_TYPES.get(type);
    if (!ggmlType) throw new RangeError(name);
    const found = dequantize(ggmlType, Uint8Array.from(Buffer.from(bytes, "base64")));
    const wanted = Uint8Array.from(Buffer.from(values, "base64"));
    expect(Array.from(found)).toEqual(Array.from(new Float32Array(wanted.buffer)));
  },
);

test("log-probs match transformers on the same file", async () => {
  const trainer = await openTrainer(await readCheckpoint(join(folder, "tiny")), { policy: "compiled" });
  const [found] = await trainer.logProbs([expected.tokens], 1);
  await trainer.close();
  const maxDifference = Math.max(...expected.logProbs.slice(1).map((p, t) => Math.abs(p - (found?.[t + 1] ?? 0))));
  expect(maxDifference).toBeLessThan(1e-4);
});

test("token ids of 1,000 texts match transformers on the same file", async () => {
  const tokenizer = openTokenizer(await readCheckpoint(join(folder, "tiny")));
  const different = expected.texts.filter(
    (text, i) => tokenizer.encodeTemplate(text).join() !== expected.ids[i]?.join(),
  );
  expect(different).toEqual([]);
});

test("BF16 halves the size of the weights and is the dtype in config.json; the types found in the file are reported", async () => {
  const to = join(folder, "half");
  const { parameters, types } = await importGguf(join(FIXTURES, "tiny.gguf"), to, "BF16");
  const size = (name: string) => readFileSync(join(folder, name, "model.safetensors")).length;
  expect(size("tiny") - size("half")).toBeGreaterThan(2 * parameters - 4096);
  const dtypeOf = (name: string) => JSON.parse(readFileSync(join(folder, name, "config.json"), "utf8")).torch_dtype;
  expect([dtypeOf("tiny"), dtypeOf("half")]).toEqual(["float32", "bfloat16"]);
  expect(types.toSorted()).toEqual(["BF16", "F16", "F32", "Q4_0", "Q4_1", "Q8_0"]);
});

test.each([
  [
    "RoPE scaling",
    renamed("tokenizer.ggml.pre", "llama.rope.scaling.type"),
    /rope\.scaling\.type = ".*" is not supported/,
  ],
  [
    "a RoPE scaling factor without a type",
    renamed("llama.context_length", "llama.rope.scaling.factor"),
    /rope\.scaling\.factor = "\d+" is not supported/,
  ],
  [
    "a RoPE scaling factor under its older name",
    renamed("llama.context_length", "llama.rope.scale_linear"),
    /rope\.scale_linear = "\d+" is not supported/,
  ],
  [
    "rotary positions of a part of each head",
    counted("llama.rope.dimension_count", 4),
    /rotary positions of 4 of a head's \d+ dimensions are not supported: use another model/,
  ],
  ["one of several parts", renamed("llama.context_length", "split.count"), /it is one of \d+ parts of a model/],
  ["an unknown architecture", replaced("llama", "lamma"), /architecture 'lamma' is not supported/],
  [
    "a bias that the architecture does not have",
    replaced("blk.0.attn_q.weight", "blk.000.attn_q.bias"),
    /tensor 'blk\.000\.attn_q\.bias' is not part of a supported llama model/,
  ],
  [
    "fewer layers than its metadata says",
    counted("llama.block_count", 3),
    /it has no 'model\.layers\.2\.input_layernorm\.weight', which its metadata requires: download it again/,
  ],
  [
    "far fewer layers than its metadata says",
    counted("llama.block_count", 2 ** 32 - 1),
    /it has no 'model\.layers\.2\.input_layernorm\.weight'/,
  ],
  [
    "a number of heads that its width cannot have",
    counted("llama.attention.head_count", 64),
    /damaged\.gguf: its metadata as config\.json: head_dim = 1 is not supported/,
  ],
  [
    "more layers than its metadata says",
    counted("llama.block_count", 1),
    /'model\.layers\.1\.\S+' is not part of the model that its metadata describes/,
  ],
  [
    "tensors of a shape other than its metadata says",
    counted("llama.feed_forward_length", 64),
    /'model\.layers\.0\.mlp\.gate_proj\.weight' has shape \[96,64\], but its metadata says \[64,64\]/,
  ],
  ["an unknown pre-tokenizer", replaced("smollm", "smullm"), /pre-tokenizer 'smullm' is not supported/],
  [
    "no pre-tokenizer",
    renamed("tokenizer.ggml.pre", "tokenizer.ggml.per"),
    /its metadata names no pre-tokenizer: use the model's Hugging Face folder, or a file from a newer converter/,
  ],
  ["no merges", renamed("tokenizer.ggml.merges", "tokenizer.ggml.mergez"), /its metadata has no merges/],
  [
    "a size that is not a number",
    renamed("tokenizer.ggml.pre", "llama.attention.key_length"),
    /llama\.attention\.key_length is not one number/,
  ],
  [
    "rows that end within a block",
    retyped("output_norm.weight", 14),
    /a row of 'output_norm\.weight' is not a whole number of Q6_K blocks/,
  ],
  [
    "an unsupported quantization",
    retyped("output_norm.weight", 10),
    /'output_norm\.weight' is Q2_K, which is not supported \(.*Q5_K.*\): import a Q8_0 or Q4_K_M file/,
  ],
  ["a type that ggml has removed", retyped("output_norm.weight", 31), /is of ggml type 31, which is not supported/],
  ["a download that ended at once", (bytes: Buffer) => bytes.subarray(0, 24), /names no architecture: download it/],
  ["a big-endian file", bigEndian, /it is big-endian: import a little-endian file/],
  ["a file that is not GGUF", () => Buffer.from("nothing"), /is not a readable GGUF file/],
  ["a truncated download", (bytes: Buffer) => bytes.subarray(0, bytes.length - 3000), /ends before the end of/],
])("a file is refused before anything is written: %s", async (_, damage, message) => {
  const [path, to] = [join(folder, "damaged.gguf"), join(folder, "refused")];
  writeFileSync(path, damage(readFileSync(join(FIXTURES, "tiny.gguf"))));
  await expect(importGguf(path, to)).rejects.toThrow(message);
  expect(existsSync(to)).toBe(false);
});

/** The metadata of a SentencePiece tokenizer. */
const SENTENCE_PIECE = {
  "tokenizer.ggml.model": "llama",
  "tokenizer.ggml.tokens": ["<unk>", "▁", "a", "▁a"],
  "tokenizer.ggml.token_type": [2, 1, 1, 1],
  "tokenizer.ggml.scores": [0, -1, -2, -3],
  "tokenizer.chat_template": "{{ messages[0].content }}",
};

test("SentencePiece puts a space before a text, unless add_space_prefix is false", () => {
  const stepsOf = (metadata: object): string[] => {
    const text = tokenizerFiles("a.gguf", { ...SENTENCE_PIECE, ...metadata }).get("tokenizer.json") ?? "";
    const { normalizer, decoder } = JSON.parse(text);
    return [...normalizer.normalizers, ...decoder.decoders].map(({ type }: { type: string }) => type);
  };
  const plain = ["Replace", "Replace", "ByteFallback", "Fuse"];
  expect(stepsOf({})).toEqual(["Prepend", ...plain, "Strip"]);
  expect(stepsOf({ "tokenizer.ggml.add_space_prefix": false })).toEqual(plain);
});

test("a SentencePiece tokenizer without scores is reported as damaged, not as unsupported", () => {
  const { "tokenizer.ggml.scores": _, ...metadata } = SENTENCE_PIECE;
  expect(() => tokenizerFiles("a.gguf", metadata)).toThrow("a.gguf: its metadata has no scores: download it again");
});

test("a pre-tokenizer with the name of a built-in object property is not supported", () => {
  const metadata = { ...SENTENCE_PIECE, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": ["▁ a"] };
  expect(() => tokenizerFiles("a.gguf", { ...metadata, "tokenizer.ggml.pre": "constructor" })).toThrow(
    "a.gguf: its pre-tokenizer 'constructor' is not supported",
  );
});

function replaced(from: string, to: string): (bytes: Buffer) => Buffer {
  return (bytes) => Buffer.from(bytes.toString("latin1").replaceAll(from, to), "latin1");
}

/** Renames a metadata key, which follows its length in 8 bytes. */
function renamed(from: string, to: string): (bytes: Buffer) => Buffer {
  const withLength = (key: string) => `${String.fromCharCode(key.length)}${"\0".repeat(7)}${key}`;
  return replaced(withLength(from), withLength(to));
}

/** Changes a number of the metadata: 32 bits, after its key and the number's type in 4 bytes. */
function counted(key: string, value: number): (bytes: Buffer) => Buffer {
  return (bytes) => {
    const copy = Buffer.from(bytes);
    copy.writeUInt32LE(value, copy.indexOf(key) + key.length + 4);
    return copy;
  };
}

/** Changes the type of a tensor, which follows its name, the number of dimensions in 4 bytes and each dimension in 8. */
function retyped(name: string, type: number): (bytes: Buffer) => Buffer {
  return (bytes) => {
    const copy = Buffer.from(bytes);
    const end = copy.indexOf(name) + name.length;
    copy.writeUInt32LE(type, end + 4 + 8 * copy.readUInt32LE(end));
    return copy;
  };
}

/** A big-endian header: version 3 and an architecture, without tensors. */
function bigEndian(): Buffer {
  const number = (value: number, bytes: number) => Buffer.from(value.toString(16).padStart(2 * bytes, "0"), "hex");
  const text = (value: string) => Buffer.concat([number(value.length, 8), Buffer.from(value)]);
  const key = [text("general.architecture"), number(8, 4), text("llama")];
  return Buffer.concat([Buffer.from("GGUF"), number(3, 4), number(0, 8), number(1, 8), ...key]);
}
