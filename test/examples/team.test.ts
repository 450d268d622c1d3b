/** @file What examples/team.ts does in edge cases that a run may never meet. */
import { expect, test } from "vitest";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import { CUT_MARK } from "../../core/conversation/special-tokens.ts";
import { openToolbox } from "../../core/conversation/toolbox.ts";
import type { TrainingSequence } from "../../engine/index.ts";
import { learn, respond } from "../../examples/team.ts";

type Agent = Parameters<typeof learn>[0];
const QUESTION: Question = { id: "q", kind: "hop1", level: 1, prompt: "?", answer: "!", facts: null };

test("an agent that no rollout called keeps its weights: a mean over no questions would make them NaN", async () => {
  const trainer = { forwardBackward: () => expect.fail("it was trained") };
  const searcher = { name: "searcher", trainer } as unknown as Agent;
  await expect(learn(searcher, [])).resolves.toBeUndefined();
});

test("a trajectory whose prompt fills or exceeds the context is not trained on; its question still counts", async () => {
  const batches: TrainingSequence[][] = [];
  const scales: number[] = [];
  const trainer = {
    forwardBackward: async (batch: TrainingSequence[]) => batches.push(batch),
    optimizerStep: async (_optimizer: unknown, scale: number) => scales.push(scale),
    save: async () => new Map(),
  };
  const searcher = { name: "searcher", trainer, checkpoint: new Map() } as unknown as Agent;
  const conversation: Conversation = { prompt: "?", turns: [], stop: "token-limit", answer: null, fault: null };
  const answered = { conversation, tokens: [1, 2], positions_A: [1], logProbs_A: [-0.5] };
  const overlong = { conversation, tokens: new Array<number>(400).fill(1), positions_A: [], logProbs_A: [] };
  await learn(searcher, [
    { group: 0, trajectory: answered, advantage: 1, weight: 1 },
    { group: 1, trajectory: overlong, advantage: -1, weight: 1 },
  ]);
  expect(batches.map((batch) => batch.map(({ tokens }) => tokens))).toEqual([[[1, 2]]]);
  expect(scales).toEqual([1 / 2]);
});

test("a report is truncated to the characters that its reader's limits allow", async () => {
  const toolbox = openToolbox("main", { tools: [], delegates: ["searcher"] }, new Map());
  const call = { kind: "delegate", agent: "searcher", task: "a task", call: 0 } as const;
  const response = await respond(call, { name: "main", toolbox }, QUESTION, async () => "x".repeat(300));
  expect(response).toEqual({ name: "delegate", text: `${"x".repeat(200)}${CUT_MARK}` });
});
