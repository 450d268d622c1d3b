/** @file `resume` refuses a run if conversations or groups of a step in flight have expired, and says what to do instead. */
import { expect, test } from "vitest";
import { resumeInStore } from "../../cli/local/resume-in-store.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { CONVERSATION_DAYS, expiryOf } from "../../core/training/retention.ts";
import { endRun, finalizeGroupRecord, recordScores } from "../../core/training/writes.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";

/** In milliseconds. */
const DAY = 86_400_000;
const START = DAY;

async function halted() {
  const config = teamConfig();
  const store = memoryStore();
  let time = START;
  store.clock.storeTime = async () => time;
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  await functions.startRun(await prepare(store.objects, config));
  await store.table.insert(tableKeys.deployment, {});
  const halt = () => store.table.update(endRun(config.run, { code: "user", reason: "no money" }));
  await halt();
  const run = async () => RunRecord.parse(await store.table.get(tableKeys.run(config.run)));
  const address = { run: config.run, step: 0, group: 0 };
  return {
    store,
    run,
    address,
    halt,
    /** Finalizes the group, with the expiry of one that is finalized a day after the start of the run. */
    finalize: () => store.table.update(finalizeGroupRecord(address, {}, expiryOf(START + DAY))),
    wait: (days: number) => {
      time += days * DAY;
    },
    resume: async () => resumeInStore(store, config, await run(), {}),
  };
}

const refusal = {
  code: "run-halted",
  message: expect.stringMatching(/cannot resume: conversations of step 0 have expired after 90 days: .*another run$/),
};
const score = { reward: 1, correct: 1, wellFormed: true, tokens: 1, invocations: {} };

test("resume refuses a run whose finalized group has expired", async () => {
  const { run, finalize, wait, resume, halt } = await halted();
  await finalize();
  wait(CONVERSATION_DAYS);
  await resume();
  expect(await run()).toMatchObject({ status: "running" });
  await halt();
  wait(1);
  await expect(resume()).rejects.toMatchObject(refusal);
  expect(await run()).toMatchObject({ status: "halted", reason: "no money" });
});

test("a store without a deployment deletes nothing, so a run in it resumes at any age", async () => {
  const { store, run, finalize, wait, resume } = await halted();
  await store.table.delete(tableKeys.deployment);
  await finalize();
  wait(CONVERSATION_DAYS + 1);
  await resume();
  expect(await run()).toMatchObject({ status: "running" });
});

test.each([
  ["the outcome of a rollout without invocations", 0],
  ["the outcome of a rollout with an invocation", 1],
  ["an invocation", 2],
])("resume refuses a run if a scored conversation has been deleted: %s", async (_, deleted) => {
  const { store, address, wait, resume, halt } = await halted();
  const id = "i".repeat(22);
  const called = { ...score, invocations: { searcher: [{ id, reward: 1, expert: 1 }] } };
  const keyOf = (rollout: number) => objectKeys.outcome({ ...address, phase: "train", rollout });
  const keys = [keyOf(0), keyOf(1), objectKeys.invocation(address.run, address.step, id)];
  for (const [rollout, one] of [score, called].entries())
    await store.table.update(recordScores(address, new Map([[rollout, one]])));
  for (const key of keys) await store.objects.commit(key, new Uint8Array(1));
  wait(CONVERSATION_DAYS);
  await resume();
  await halt();
  await store.objects.delete(keys.slice(deleted, deleted + 1));
  await expect(resume()).rejects.toMatchObject(refusal);
});

test("once a step has finished, the refusal says how to keep the last version", async () => {
  const { store, run, address, wait } = await halted();
  const stepZero = await store.table.get(tableKeys.step(address.run, 0));
  // Step 1 is refused because its groups have no GROUP records. It is sampled from version 0 of each agent, so it may be as old as the run.
  await store.table.insert(tableKeys.step(address.run, 1), { ...stepZero, step: 1 });
  wait(CONVERSATION_DAYS);
  const resumed = resumeInStore(store, teamConfig(), { ...(await run()), step: 1 }, {});
  await expect(resumed).rejects.toMatchObject({
    code: "run-halted",
    message: expect.stringMatching(/conversations of step 1 have expired after 90 days: export .* with `mgrpo export`/),
  });
});

test("a planned step whose GROUP records were never written is not refused while the groups that it follows have not expired", async () => {
  const { store, run, address, wait, finalize, halt } = await halted();
  const resume = async () => resumeInStore(store, teamConfig(), { ...(await run()), step: 1 }, {});
  const stepZero = await store.table.get(tableKeys.step(address.run, 0));
  const policy = { main: 1, searcher: 1 };
  await store.table.insert(tableKeys.step(address.run, 1), { ...stepZero, step: 1, policy });
  // Group 0 of step 0 is finalized a day after the start of the run, then step 1 is planned.
  await finalize();
  wait(CONVERSATION_DAYS);
  await resume();
  expect(await run()).toMatchObject({ status: "running" });
  await halt();
  wait(1);
  await expect(resume()).rejects.toMatchObject({ code: "run-halted" });
});
