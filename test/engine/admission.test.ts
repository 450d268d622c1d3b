/** @file Admission when slots are scarce: the sequence that began first is admitted first, whichever of its turns is waiting. */
import { expect, test } from "vitest";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

test("a sequence's next turn is admitted before the first turn of a waiting sequence", async () => {
  const sampler = await openCompiledSampler(tinyCheckpoint(), { ...OPTIONS, slots: 2, provider: "cpu" });
  const ended: string[] = [];
  const turn = async (sequence: string, tokens: readonly number[], maxTokens: number) => {
    const sampling = { temperature: 1, topP: 1, topK: 0 };
    const stream = [sequence, tokens.length];
    const sample = await sampler.sample({ sequence, tokens: [...tokens], maxTokens, stop: [], sampling, stream });
    ended.push(`${sequence}${tokens.length}`);
    return [...tokens, ...sample.tokens];
  };
  const talk = async (sequence: string, turns: number, maxTokens: number) => {
    let history: readonly number[] = [1];
    for (let i = 0; i < turns; i++) history = [...(await turn(sequence, history, maxTokens)), 2];
    sampler.release(sequence);
  };
  // Two slots, of which b holds one throughout. When a comes back, c has the other; d has waited longer, but a began before it.
  await Promise.all([talk("a", 3, 2), talk("b", 1, 12), talk("c", 1, 2), talk("d", 1, 2)]);
  expect(ended.filter((name) => !name.startsWith("b"))).toEqual(["a1", "c1", "a4", "d1", "a7"]);
  await sampler.close();
});
