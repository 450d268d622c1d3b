/** @file Rollouts lost to infrastructure, over several steps. */
import { expect, test } from "vitest";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { bytes, playRollout, prepare, publish, rewards, teamConfig } from "../fakes/scripted-team.ts";

test("the losses of successive steps add up: the run is halted once they exceed limits.lostFraction of the rollouts of ten steps", async () => {
  // 5% of ten steps of three rollouts is 1.5.
  const config = teamConfig({ questionsPerStep: 1, limits: { lostFraction: 0.05 }, evaluation: { suites: [] } });
  const store = memoryStore();
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  await functions.startRun(await prepare(store.objects, config));
  const run = async () => RunRecord.parse(await store.table.get(tableKeys.run("test")));
  for (const n of [0, 1]) {
    expect(await run()).toMatchObject({ status: "running", step: n });
    const step = StepRecord.parse(await store.table.get(tableKeys.step("test", n)));
    const address = { run: "test", phase: "train", step: n, group: 0, rollout: 0 };
    const lost = { status: "failed", address, questionId: step.groups[0], reason: "disk" };
    await store.objects.commit(objectKeys.outcome(address), bytes(lost));
    await functions.scoreRollout({ key: objectKeys.outcome(address) });
    for (const k of [1, 2]) await functions.scoreRollout({ key: await playRollout(store.objects, config, step, 0, k) });
    for (const agent of step.trained)
      await functions.manifestCreated({ key: await publish(store.objects, config, agent, n + 1) });
  }
  expect(await run()).toMatchObject({
    ...{ status: "halted", haltCode: "losses" },
    reason: expect.stringMatching(/^2 rollouts lost within 10 steps, .*; the last: 1\/0\/0: disk\./),
  });
});
