/** @file Prefilling: what is computed, what is copied from another conversation, and what must not be. */
import { expect, test } from "vitest";
import type { PrefillChunk } from "../../engine/compiled/sampling/host-decoder.ts";
import { KvCache } from "../../engine/compiled/sampling/kv-cache.ts";
import { hold, type SlotEntry, stateOf } from "../../engine/compiled/sampling/kv-cache-slots.ts";
import { prefill } from "../../engine/compiled/sampling/prefill.ts";
import { type ComputePath, PrefixStates } from "../../engine/compiled/sampling/prefix-states.ts";
import { TINY } from "./tiny.ts";

const resident = (slot: number): SlotEntry => ({
  sequence: `s${slot}`,
  tokens: [],
  states: [],
  slot,
  parked: undefined,
  active: true,
  released: false,
  lastUse: 0,
});

const states = new PrefixStates();

/** Whose cache was filled with these: in one piece, or one at a time. */
function filled(slot: number, how: ComputePath, tokens: readonly number[]): SlotEntry {
  const member = resident(slot);
  const pieces = how === "prefilled" ? [tokens] : tokens.map((token) => [token]);
  for (const piece of pieces) hold(member, piece, states.after(stateOf(member), how, piece));
  return member;
}

/** Computes nothing: says which pieces it was asked for, and which copies were made. */
class Recorder {
  readonly computed: PrefillChunk[] = [];
  readonly copied: number[][] = [];
  readonly cache = new KvCache(TINY, 8, 800);

  constructor() {
    this.cache.copy = (...copy) => this.copied.push(copy);
  }

  async prefill(pieces: readonly PrefillChunk[]) {
    this.computed.push(...pieces);
  }
}

const upTo = (count: number, last = 0) => Array.from({ length: count }, (_, i) => (i === count - 1 ? last : i));

test("the prompt of a question is computed once for all its rollouts", async () => {
  const recorder = new Recorder();
  const known = [0, 1, 2, 3].map(resident);
  const prompts = [upTo(20, 1), upTo(20, 2), upTo(20, 1), upTo(20, 1)];
  const fillings = known.map((member, k) => ({ resident: member, tokens: prompts[k] ?? [] }));
  await prefill(fillings, known, states, recorder);
  expect(recorder.computed.map(({ slot }) => slot)).toEqual([0, 1]);
  expect(recorder.copied).toEqual([
    [0, 2, 0, 20],
    [0, 3, 0, 20],
  ]);
  expect(known.map(({ tokens }) => tokens)).toEqual(prompts);
});

test("of prompts that begin alike the common pieces are computed once", async () => {
  const recorder = new Recorder();
  const known = [0, 1].map(resident);
  const fillings = known.map((member, k) => ({ resident: member, tokens: upTo(600, k + 1000) }));
  await prefill(fillings, known, states, recorder);
  expect(recorder.computed.map(({ slot, position, tokens }) => [slot, position, tokens.length])).toEqual([
    [0, 0, 256],
    [0, 256, 256],
    [0, 512, 88],
    [1, 512, 88],
  ]);
});

test("what was sampled is never taken for what was prefilled, since its bits are others", async () => {
  const recorder = new Recorder();
  const sampled = filled(0, "decoded", upTo(20));
  const asked = resident(1);
  await prefill([{ resident: asked, tokens: upTo(20) }], [sampled, asked], states, recorder);
  expect(recorder.copied).toEqual([]);
  expect(recorder.computed.map(({ slot }) => slot)).toEqual([1]);
});

test("a response is computed once for conversations that went alike so far, and again for any other", async () => {
  const recorder = new Recorder();
  const members = [0, 1, 2].map((slot) => filled(slot, "decoded", upTo(12, slot % 2)));
  const fillings = members.map((member) => ({ resident: member, tokens: [...member.tokens, 7, 7, 7] }));
  await prefill(fillings, members, states, recorder);
  expect(recorder.computed.map(({ slot, position }) => [slot, position])).toEqual([
    [0, 12],
    [1, 12],
  ]);
  expect(recorder.copied).toEqual([[0, 2, 12, 15]]);
});
