/** @file Invocations whose caller was truncated: their rewards are unknown, so nothing is learned from them. */
import { expect, test } from "vitest";
import { AlgorithmConfig } from "../../../core/contracts/algorithm-config.ts";
import type { RolloutScore } from "../../../core/contracts/records.ts";
import { finalizeGroup } from "../../../core/mgrpo/finalize.ts";

test("calls whose caller was truncated under `overlong: mask` count in no mean, std or batch, and the others keep their indices", () => {
  const weighted = AlgorithmConfig.parse({ alignment: { mode: "weighted", d: 2 }, overlong: "mask", epsilon: 1e-12 });
  const call = (letter: string, reward: number) => ({ id: letter.repeat(22), reward, expert: 0 });
  const score = { reward: 0, correct: 0, wellFormed: true, tokens: 1 };
  const unknown = { ...call("u", 0.9), masked: "caller" as const };
  const group: Record<string, RolloutScore> = {
    0: { ...score, invocations: { s: [unknown, call("a", 1)] } },
    1: { ...score, invocations: { s: [call("b", 0.2), call("c", 0)] } },
    2: { ...score, invocations: { s: [unknown] } },
  };
  // d_k = 1, 2, 0: weights 1/2, 1/4, 1/4; mean 0.5*1 + 0.25*0.2 = 0.55; std sqrt(0.5*0.45^2 + 0.25*0.35^2 + 0.25*0.55^2) = 0.455522
  const { s } = finalizeGroup(group, "main", ["s"], weighted, [1]);
  expect(s?.trajectories).toEqual(["0/1", "1/0", "1/1"]);
  expect(s?.weights).toEqual([0.5, 0.25, 0.25]);
  expect(s?.mean).toBeCloseTo(0.55, 12);
  expect(s?.std).toBeCloseTo(0.455522, 6);
});
