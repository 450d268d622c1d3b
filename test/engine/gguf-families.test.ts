/**
 * @file The import of GGUF files of every supported family and tokenizer kind: log-probs match transformers on the same file, and token ids of
 * 1,000 texts match the family's own tokenizer (test/fixtures/gguf/make_families.py, which draws the same texts). Log-probs of a file of
 * K-quants match too, and so do token ids with two more pre-tokenizers.
 */
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CheckpointFiles, Tokenizer } from "../../core/ports.ts";
import { importGguf } from "../../engine/gguf/import.ts";
import { readGguf } from "../../engine/gguf/metadata.ts";
import { tokenizerFiles } from "../../engine/gguf/tokenizer.ts";
import { openTokenizer, openTrainer, readCheckpoint } from "../../engine/index.ts";
import { type DrawnTexts, differingTexts } from "./drawn-texts.ts";

interface Scored {
  readonly tokens: number[];
  readonly logProbs: number[];
}

interface Family extends Scored, Pick<DrawnTexts, "words" | "prefix" | "hashes"> {}

const FIXTURES = join(import.meta.dirname, "../fixtures/gguf");
const expected: {
  readonly seed: number;
  readonly separators: readonly string[];
  readonly families: Readonly<Record<string, Family>>;
  /** For each pre-tokenizer: hashes of the token ids of llama3's texts, with llama3's vocabulary. */
  readonly preTokenizers: Readonly<Record<string, readonly string[]>>;
  readonly kQuants: Scored;
} = JSON.parse(readFileSync(join(FIXTURES, "families.json"), "utf8"));
const folder = mkdtempSync(join(tmpdir(), "mgrpo-gguf-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The texts whose ids are not the expected ones. */
function differing(tokenizer: Tokenizer, { words, prefix }: Family, hashes: readonly string[]): string[] {
  expect(hashes).toHaveLength(1000);
  const { seed, separators } = expected;
  return differingTexts((text) => tokenizer.encodeTemplate(text), { seed, separators, words, prefix, hashes });
}

async function expectLogProbs(files: CheckpointFiles, { tokens, logProbs }: Scored): Promise<void> {
  const trainer = await openTrainer(files, { policy: "compiled" });
  const [found] = await trainer.logProbs([tokens], 1);
  await trainer.close();
  const differences = logProbs.slice(1).map((p, t) => Math.abs(p - (found?.[t + 1] ?? 0)));
  expect(Math.max(...differences)).toBeLessThan(1e-4);
}

describe.each(Object.entries(expected.families))("%s", (name, family) => {
  let files: CheckpointFiles;
  beforeAll(async () => {
    await importGguf(join(FIXTURES, `${name}.gguf`), join(folder, name));
    files = await readCheckpoint(join(folder, name));
  });

  test("log-probs match transformers on the same file", () => expectLogProbs(files, family));

  test("token ids of 1,000 texts match the family's own tokenizer", () => {
    expect(differing(openTokenizer(files), family, family.hashes)).toEqual([]);
  });
});

test("K-quants: log-probs match transformers on the same file", async () => {
  const to = join(folder, "kquants");
  const { types } = await importGguf(join(FIXTURES, "kquants.gguf"), to);
  expect(types.toSorted()).toEqual(["F32", "Q4_K", "Q5_K", "Q6_K", "Q8_0"]);
  await expectLogProbs(await readCheckpoint(to), expected.kQuants);
});

test.each(Object.entries(expected.preTokenizers))(
  "pre-tokenizer %s: token ids of 1,000 texts match transformers",
  async (pre, hashes) => {
    const path = join(FIXTURES, "llama3.gguf");
    const { metadata } = await readGguf(path, statSync(path).size);
    const texts = tokenizerFiles(path, { ...metadata, "tokenizer.ggml.pre": pre });
    const files = new Map([...texts].map(([name, text]) => [name, new TextEncoder().encode(text)]));
    expect(differing(openTokenizer(files), expected.families["llama3"] as Family, hashes)).toEqual([]);
  },
);
