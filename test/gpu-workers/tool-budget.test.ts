/**
 * @file The tool budget of a rollout across two workers over HTTP: what is left is split as evenly as possible among the delegations of a
 * turn, and the rollout never exceeds its limit. A repeated run has the same invocation ids.
 */
import { expect, test } from "vitest";
import { z } from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { Invocation } from "../../core/contracts/rollout.ts";
import type { Tool } from "../../core/ports.ts";
import { callText } from "../fakes/conversations.ts";
import { scriptedEngine } from "../fixtures/relay/policy.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { startRelay } from "../fixtures/relay/world.ts";

const config = relayConfig({
  steps: 1,
  questionsPerStep: 1,
  rolloutsPerQuestion: 2,
  agents: Object.fromEntries(
    Object.entries(relayConfig().agents).map(([name, agent]) => [
      name,
      { ...agent, limits: { turns: 9, turnTokens: 400, contextTokens: 8000, calls: 2 } },
    ]),
  ),
});

const delegate = callText("delegate", { agent: "searcher", task: "look" });
const turnsIn = (conversation: string) => conversation.split("<|im_start|>assistant").length - 2;
/** Delegates to the searcher twice in parallel, then once more. */
const main = scriptedEngine(
  (conversation) => [delegate + delegate, delegate][turnsIn(conversation)] ?? "<answer>birch</answer>",
);
/** Looks up three times, or until the budget is spent. */
const searcher = scriptedEngine((conversation) =>
  conversation.includes("no calls are left") || turnsIn(conversation) === 3
    ? "<answer>cedar</answer>"
    : callText("lookup", { word: "alder" }),
);

async function run(allowance?: { calls: number; microUsd: null }) {
  const { memory, work } = await startRelay(config);
  let lookups = 0;
  const lookup: Tool<{ word: string }> = {
    name: "lookup",
    description: "What follows a word.",
    parameters: z.object({ word: z.string() }),
    async run(_, { budget }) {
      const refused = budget.charge(0.001);
      if (refused === undefined) lookups += 1;
      return refused ?? "birch";
    },
  };
  const parts = { tools: new Map([["lookup", lookup as Tool]]), ...(allowance && { allowance }) };
  await Promise.all([
    work({}, { ...parts, engineOf: () => main }),
    work({ agent: "searcher" }, { ...parts, engineOf: () => searcher }),
  ]);
  const keys = memory.objects.keys().filter((key) => key.includes("/invocations/"));
  const invocations = await Promise.all(
    keys.map(async (key) => parseJson(Invocation, (await memory.objects.get(key)) ?? new Uint8Array(), key)),
  );
  invocations.sort((a, b) => a.request.address.rollout - b.request.address.rollout || a.request.call - b.request.call);
  return { invocations, lookups };
}

test("5 calls are split 3 and 2 in the first turn, and the second turn's delegation gets none", async () => {
  const { invocations, lookups } = await run({ calls: 5, microUsd: null });
  const ofRollout = [
    [
      { calls: 3, microUsd: null },
      { calls: 3, microUsd: 3000 },
    ],
    [
      { calls: 2, microUsd: null },
      { calls: 2, microUsd: 2000 },
    ],
    [
      { calls: 0, microUsd: null },
      { calls: 0, microUsd: 0 },
    ],
  ];
  expect(invocations.map(({ request, spent }) => [request.allowance, spent])).toEqual([...ofRollout, ...ofRollout]);
  expect(lookups).toBe(2 * 5);
  expect(invocations.map(({ conversation }) => conversation.answer)).toEqual(Array(6).fill("cedar"));
  const again = await run({ calls: 5, microUsd: null });
  expect(again.invocations.map(({ id }) => id)).toEqual(invocations.map(({ id }) => id));
});

test("without a limit no invocation mentions the budget", async () => {
  const { invocations, lookups } = await run();
  expect(lookups).toBe(2 * 3 * 3);
  for (const invocation of invocations) {
    expect(invocation).not.toHaveProperty("spent");
    expect(invocation.request).not.toHaveProperty("allowance");
  }
});
