/** @file Turn rewards, from the recipe to the weights: they are recorded and trained on, and a verdict without them halts the run. */
import { expect, test } from "vitest";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Rewards } from "../../core/ports.ts";
import { rewards } from "../fixtures/relay/rewards.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { recordsOf, startRelay } from "../fixtures/relay/world.ts";

/** 1 for a turn that makes exactly one call, else 0. The last turn has no reward of its own. */
const turnRewardsOf = ({ turns }: Conversation) =>
  turns.map(({ calls }, i) => (i === turns.length - 1 ? null : Number(calls.length === 1)));

const byTurn: Rewards = {
  correct: async (question, conversation) => ({
    score: Number(await rewards.correct(question, conversation)),
    turns: turnRewardsOf(conversation),
  }),
  expert: async (question, agent, conversation) => ({
    score: Number(await rewards.expert(question, agent, conversation)),
    turns: turnRewardsOf(conversation),
  }),
};

async function run(changes: object, judge: Rewards) {
  const config = relayConfig({ steps: 2, rolloutsPerQuestion: 4, ...changes });
  const { memory, work } = await startRelay(config, { judge });
  await Promise.all(["main", "searcher"].map((agent) => work({ agent }).catch(() => {})));
  return recordsOf(memory, config);
}

test("only if turnWeight is set, turn rewards are recorded and change the weights; a second run ends with the same records", async () => {
  const withTurns = await run({ algorithm: { turnWeight: 0.5 } }, byTurn);
  expect(withTurns.status).toBe("finished");
  const groups = withTurns.steps.flatMap((step) => step.groups);
  const offsets = groups.flatMap(({ finalized }) => finalized["main"]?.turns ?? []).flat();
  expect(offsets.some((offset) => offset > 0) && offsets.some((offset) => offset < 0)).toBe(true);
  for (const { rollouts } of groups) {
    for (const score of Object.values(rollouts)) {
      if ("excluded" in score || !score.wellFormed) continue;
      expect(score.turns?.at(-1)).toBeNull();
    }
  }
  expect(await run({ algorithm: { turnWeight: 0.5 } }, byTurn)).toEqual(withTurns);
  const without = await run({}, byTurn);
  expect(without.status).toBe("finished");
  expect(without.weights["main"]?.at(-1)).not.toBe(withTurns.weights["main"]?.at(-1));
  expect(JSON.stringify(without.steps)).not.toContain('"turns"');
});

test.each<[string, Rewards, RegExp]>([
  [
    "rewards no turns",
    rewards,
    /the verdict on '(main|searcher)' rewards no turns, and turnWeight is 0\.5: return \{ score, turns \}/,
  ],
  [
    "rewards too few turns",
    { ...byTurn, correct: async () => ({ score: 1, turns: [] }) },
    /the verdict on 'main' rewards 0 turns of \d, .* from correct\(\) of the recipe's rewards/,
  ],
])("if turnWeight is set, a verdict that %s halts the run", async (_what, judge, reason) => {
  const { status, reason: found } = await run({ algorithm: { turnWeight: 0.5 } }, judge);
  expect(status).toBe("halted");
  expect(found).toMatch(reason);
});
