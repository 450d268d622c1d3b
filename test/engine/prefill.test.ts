/** @file Prefill: which chunks are computed, which are copied from another sequence, and which must not be copied. */
import { expect, test } from "vitest";
import { KvCache } from "../../engine/compiled/sampling/kv-cache.ts";
import { appendTokens, prefixStateOf, type SlotEntry } from "../../engine/compiled/sampling/kv-cache-slots.ts";
import { prefill } from "../../engine/compiled/sampling/prefill.ts";
import { type ComputePath, PrefixStates } from "../../engine/compiled/sampling/prefix-states.ts";
import type { PrefillChunk } from "../../engine/compiled/sampling/slot-decoder.ts";
import { TINY } from "./tiny.ts";

const emptyEntry = (slot: number): SlotEntry => ({
  sequence: `s${slot}`,
  tokens: [],
  states: [],
  slot,
  isActive: true,
  isReleased: false,
  lastUse: 0,
});

const states = new PrefixStates();

/** An entry with these tokens, prefilled in one chunk or decoded one at a time. */
function filledEntry(slot: number, path: ComputePath, tokens: readonly number[]): SlotEntry {
  const entry = emptyEntry(slot);
  const chunks = path === "prefilled" ? [tokens] : tokens.map((token) => [token]);
  for (const chunk of chunks) appendTokens(entry, chunk, states.after(prefixStateOf(entry), path, chunk));
  return entry;
}

/** Computes nothing; records the chunks and copies it was asked for. */
class Recorder {
  readonly computed: PrefillChunk[] = [];
  readonly copied: number[][] = [];
  readonly cache = new KvCache(TINY, 8, 800);

  constructor() {
    this.cache.copy = (...copy) => this.copied.push(copy);
  }

  async prefill(chunks: readonly PrefillChunk[]) {
    this.computed.push(...chunks);
  }
}

/** The tokens 0, 1, 2, …, with `last` in the last place. */
const upTo = (count: number, last = 0) => Array.from({ length: count }, (_, i) => (i === count - 1 ? last : i));

test("the prompt of a question is computed once for all its rollouts", async () => {
  const recorder = new Recorder();
  const entries = [0, 1, 2, 3].map(emptyEntry);
  const prompts = [upTo(20, 1), upTo(20, 2), upTo(20, 1), upTo(20, 1)];
  const tasks = entries.map((entry, k) => ({ entry, tokens: prompts[k] ?? [] }));
  await prefill(tasks, entries, states, recorder);
  expect(recorder.computed.map(({ slot }) => slot)).toEqual([0, 1]);
  expect(recorder.copied).toEqual([
    [0, 2, 0, 20],
    [0, 3, 0, 20],
  ]);
  expect(entries.map(({ tokens }) => tokens)).toEqual(prompts);
});

test("common chunks of prompts that share a prefix are computed once", async () => {
  const recorder = new Recorder();
  const entries = [0, 1].map(emptyEntry);
  const tasks = entries.map((entry, k) => ({ entry, tokens: upTo(600, k + 1000) }));
  await prefill(tasks, entries, states, recorder);
  expect(recorder.computed.map(({ slot, position, tokens }) => [slot, position, tokens.length])).toEqual([
    [0, 0, 256],
    [0, 256, 256],
    [0, 512, 88],
    [1, 512, 88],
  ]);
});

test("decoded tokens are never copied where prefilled ones are needed, since their bits differ", async () => {
  const recorder = new Recorder();
  const sampled = filledEntry(0, "decoded", upTo(20));
  const prompted = emptyEntry(1);
  await prefill([{ entry: prompted, tokens: upTo(20) }], [sampled, prompted], states, recorder);
  expect(recorder.copied).toEqual([]);
  expect(recorder.computed.map(({ slot }) => slot)).toEqual([1]);
});

test("a tool response is computed once for sequences with the same history, and again for another history", async () => {
  const recorder = new Recorder();
  const entries = [0, 1, 2].map((slot) => filledEntry(slot, "decoded", upTo(12, slot % 2)));
  const tasks = entries.map((entry) => ({ entry, tokens: [...entry.tokens, 7, 7, 7] }));
  await prefill(tasks, entries, states, recorder);
  expect(recorder.computed.map(({ slot, position }) => [slot, position])).toEqual([
    [0, 12],
    [1, 12],
  ]);
  expect(recorder.copied).toEqual([[0, 2, 12, 15]]);
});
