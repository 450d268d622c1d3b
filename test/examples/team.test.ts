/** @file What the steps of examples/team.ts do in cases that a run need not meet. */
import { expect, test } from "vitest";
import type { Question } from "../../core/contracts/question.ts";
import { CUT_MARK } from "../../core/conversation/special-tokens.ts";
import { openToolbox } from "../../core/conversation/toolbox.ts";
import { learn, respond } from "../../examples/team.ts";

const QUESTION: Question = { id: "q", kind: "hop1", level: 1, prompt: "?", answer: "!", facts: null };

test("an agent that no rollout called keeps its weights: the mean over no questions would make them NaN", async () => {
  const trainer = { forwardBackward: () => expect.fail("it was trained") };
  const searcher = { name: "searcher", trainer } as unknown as Parameters<typeof learn>[0];
  await expect(learn(searcher, [])).resolves.toBeUndefined();
});

test("a report is cut to the characters that its reader's limits allow", async () => {
  const toolbox = openToolbox("main", { tools: [], delegates: ["searcher"] }, new Map());
  const call = { kind: "delegate", agent: "searcher", task: "a task", call: 0 } as const;
  const response = await respond(call, { name: "main", toolbox }, QUESTION, async () => "x".repeat(300));
  expect(response).toEqual({ name: "delegate", text: `${"x".repeat(200)}${CUT_MARK}` });
});
