/** @file Evaluation results whose event was lost: a failure of one does not keep the others from being recorded. */
import { expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";
import { openContext } from "../../functions/context.ts";
import { readOpenJobs, recordMissedResults } from "../../functions/evaluating.ts";
import { openFunctions } from "../../functions/functions.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { bytes, prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";

test("if the store does not answer for one job, the failure is thrown once the results of the others are recorded", async () => {
  const store = memoryStore();
  const context = openContext(store, { rewardsOf: async () => rewards });
  await openFunctions(context).startRun(await prepare(store.objects, teamConfig()));
  const [first = expect.fail(), second = expect.fail()] = await readOpenJobs(context, "test");
  const { job, team, suite } = second;
  const score = { n: 4, correct: 3, runs: [{ n: 4, correct: 3 }], interval: { low: 0.3, high: 0.95 } };
  const result = { run: "test", job, team, suite, ...score, lost: [], questions: [], seconds: 1 };
  await store.objects.commit(objectKeys.evaluation("test", job), bytes(result));
  const { head } = store.objects;
  store.objects.head = async (key) => {
    if (key === objectKeys.evaluation("test", first.job)) throw new MgrpoError("store-unreachable", "no answer");
    return head(key);
  };
  await expect(recordMissedResults(context, [first, second])).rejects.toThrow("no answer");
  expect((await readOpenJobs(context, "test")).map((open) => open.job)).toEqual([first.job]);
});
