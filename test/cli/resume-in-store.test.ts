/**
 * @file Resuming a run in its store. A run whose budget is spent is refused before anything is written, a raised budget resumes it, and the same
 * increase again changes nothing. An edited config is refused. A run stays halted if an evaluation cannot be reopened. Fleets are reset.
 */
import { expect, test } from "vitest";
import { refuseEdited, resumeInStore } from "../../cli/local/resume-in-store.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import type { EvaluationResult } from "../../core/contracts/messages.ts";
import { JobRecord, RunRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { TableChange } from "../../core/ports.ts";
import { emptyFleetRecord } from "../../core/training/fleets.ts";
import { finishJob } from "../../core/training/job-writes.ts";
import { listedRuns } from "../../core/training/run-list.ts";
import { endRun } from "../../core/training/writes.ts";
import { openContext } from "../../functions/context.ts";
import { openFunctions } from "../../functions/functions.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { repeatingTable } from "../fakes/repeating-table.ts";
import { prepare, rewards, teamConfig } from "../fakes/scripted-team.ts";

const HOUR = 3_600_000;
const TOOLS_SPENT = { run: "test", calls: 4, microUsd: 900, blocked: 0, maxCalls: 3, maxUsd: null };

async function started(config = teamConfig({ budget: { hours: 2 } })) {
  const store = memoryStore();
  let time = HOUR;
  store.clock.storeTime = async () => time;
  const functions = openFunctions(openContext(store, { rewardsOf: async () => rewards }));
  await functions.startRun(await prepare(store.objects, config));
  const run = async () => RunRecord.parse(await store.table.get(tableKeys.run(config.run)));
  const later = async (hours: number) => {
    time += hours * HOUR;
    await functions.tickAll();
  };
  const resume = async (extension = {}) => resumeInStore(store, config, await run(), extension);
  return { store, run, later, resume };
}

test("a scheduled tick halts a run once its hours are spent; a raised budget resumes it until the added hours are spent too", async () => {
  const { run, later, resume } = await started();
  expect(await run()).toMatchObject({ startedAt: HOUR, maxHours: 2, maxUsd: null });
  await later(1.9);
  expect(await run()).toMatchObject({ status: "running" });
  await later(0.2);
  const reason = "its budget is spent: 2.10 of 2 hours since it began; allow more with --budget-hours <hours in all>";
  expect(await run()).toMatchObject({ status: "halted", reason });
  await expect(resume()).rejects.toMatchObject({ code: "run-halted", message: expect.stringContaining(reason) });
  expect(await run()).toMatchObject({ status: "halted", reason });
  await resume({ hours: 3.1 });
  expect(await run()).toMatchObject({ status: "running", reason: "", maxHours: 3.1, startedAt: HOUR });
  await later(0.9);
  expect(await run()).toMatchObject({ status: "running" });
  await later(0.2);
  expect(await run()).toMatchObject({ status: "halted" });
});

test("a stopped run that has spent its hours is refused, instead of started and halted at once", async () => {
  const { run, resume, later, store } = await started();
  await later(0);
  store.clock.storeTime = async () => 9 * HOUR;
  expect(await run()).toMatchObject({ status: "running" });
  await expect(resume()).rejects.toThrow(/8\.00 of 2 hours/);
  await resume({ hours: 10 });
  expect(await run()).toMatchObject({ status: "running", maxHours: 10 });
});

test("a run halted for another reason resumes; a limit that it does not have cannot be raised", async () => {
  const { store, run, resume } = await started(teamConfig());
  await store.table.update(endRun("test", { code: "user", reason: "a trainer was lost" }));
  await expect(resume({ usd: 1 })).rejects.toThrow("no budget.usd to raise");
  expect(await run()).toMatchObject({ status: "halted" });
  await resume();
  expect(await run()).toMatchObject({ status: "running", reason: "" });
});

test("a config that was edited after the run began is refused, with what differs: only this process would follow it", async () => {
  const { store } = await started();
  const begun = teamConfig({ budget: { hours: 2 } });
  await refuseEdited(store, begun, "config.json");
  await expect(refuseEdited(store, { ...begun, steps: 4 }, "config.json")).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringContaining(
      "config.json is not the config that the run began with: steps: 3 (stored), 4 (requested)",
    ),
  });
  await refuseEdited(memoryStore(), begun, "config.json");
});

test("if an evaluation cannot be reopened, the run stays halted and unlisted; once it can be, the same command resumes the run", async () => {
  const { store, run, resume, later } = await started(teamConfig());
  await store.table.update(endRun("test", { code: "losses", reason: "too many were lost" }));
  await later(1);
  await later(2);
  const listed = async () => (await listedRuns(store.table)).map((one) => one.run);
  expect(await listed()).toEqual([]);
  const [item] = await store.table.query(tableKeys.run("test").pk, tablePrefixes.jobs);
  const job = JobRecord.parse(item);
  await store.table.update(finishJob(job, job));
  const key = objectKeys.evaluation("test", job.job);
  await store.objects.commit(key, new TextEncoder().encode("damaged"));
  await expect(resume()).rejects.toMatchObject({ code: "record-damaged" });
  expect([(await run()).status, await listed()]).toEqual(["halted", []]);
  await store.objects.delete([key]);
  await resume();
  expect(await run()).not.toHaveProperty("haltCode");
  expect([(await run()).status, await listed()]).toEqual(["running", ["test"]]);
});

test("of two concurrent increases, one applies, and the other is refused", async () => {
  const { store, run, later } = await started();
  await later(3);
  const read = await run();
  const both = [4, 5].map((hours) => resumeInStore(store, teamConfig({ budget: { hours: 2 } }), read, { hours }));
  const settled = await Promise.allSettled(both);
  expect(settled.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  expect([4, 5]).toContain((await run()).maxHours);
});

test("a budget increase whose response is lost applies once: the SDK's retry finds the limits already raised", async () => {
  const { store, run, resume, later } = await started(teamConfig({ budget: { hours: 2 } }));
  await store.table.insert(tableKeys.toolSpending("test"), TOOLS_SPENT);
  await later(3);
  store.table.update = repeatingTable({ ...store.table }).update;
  await resume({ hours: 4, toolCalls: 14 });
  expect(await run()).toMatchObject({ status: "running", maxHours: 4 });
  expect(await store.table.get(tableKeys.toolSpending("test"))).toMatchObject({ maxCalls: 14 });
});

test("a command repeated after an outage ends with the same budget, whether or not an earlier attempt took effect", async () => {
  const { store, run, resume, later } = await started(teamConfig({ budget: { hours: 2 } }));
  await store.table.insert(tableKeys.toolSpending("test"), TOOLS_SPENT);
  await later(3);
  const { update } = store.table;
  const outage = async () => {
    throw new MgrpoError("store-unreachable", "no answer", { retryable: true });
  };
  const raised = { hours: 4, toolCalls: 14 };
  for (const broken of [outage, async (change: TableChange) => update(change).then(outage)]) {
    store.table.update = broken;
    await expect(resume(raised)).rejects.toMatchObject({ code: "store-unreachable" });
  }
  store.table.update = update;
  for (const _ of [1, 2, 3]) await resume(raised);
  expect(await run()).toMatchObject({ status: "running", maxHours: 4 });
  expect(await store.table.get(tableKeys.toolSpending("test"))).toMatchObject({ maxCalls: 14 });
});

test("an increase of one limit while another is spent changes nothing, and the error names the other's option", async () => {
  const { store, run, later, resume } = await started(
    teamConfig({ budget: { hours: 2, usd: 5, usdPerWorkerHour: { "*": 0.01 } } }),
  );
  const spending = { run: "test", verdicts: 1, microUsd: 6_000_000, reserved: {} };
  await store.table.insert(tableKeys.judgeSpending("test", 0), spending);
  const tools = { ...TOOLS_SPENT, maxUsd: 0.0005 };
  await store.table.insert(tableKeys.toolSpending("test"), tools);
  await later(3);
  const refused = async (raised: object, option: RegExp) => {
    await expect(resume(raised)).rejects.toMatchObject({
      code: "run-halted",
      message: expect.stringMatching(option),
    });
    expect(await run()).toMatchObject({ status: "halted", maxHours: 2, maxUsd: 5 });
    expect(await store.table.get(tableKeys.toolSpending("test"))).toEqual(tools);
  };
  await refused({ hours: 20 }, /\$6\.00 of \$5 .*--budget-usd/);
  await refused({ usd: 20 }, /3\.00 of 2 hours .*--budget-hours/);
  await refused({ hours: 20, usd: 20 }, /3 calls to backends.*--budget-tool-calls/);
  await refused({ hours: 20, usd: 20, toolCalls: 14 }, /\$0\.0005 for backends.*--budget-tool-usd/);
  await resume({ hours: 20, usd: 20, toolCalls: 14, toolUsd: 1 });
  expect(await run()).toMatchObject({ status: "running", maxHours: 20, maxUsd: 20 });
});

test("resuming resets a fleet even if a tick counts another capacity request meanwhile", async () => {
  const { store, run, resume } = await started();
  const key = tableKeys.fleet("test", "main");
  const refusal = { release: "1", reason: "no such tool" };
  await store.table.insert(key, { ...emptyFleetRecord("test", "main"), capacityRequests: 5, refusal });
  await store.table.update(endRun("test", { code: "unserved", reason: "no instance serves it" }));
  const { query } = store.table;
  store.table.query = async (pk, prefix) => {
    const items = await query(pk, prefix);
    if (prefix === tablePrefixes.fleets) await store.table.update({ key, set: [[["capacityRequests"], 6]], when: [] });
    return items;
  };
  await resume();
  expect(await store.table.get(key)).toMatchObject({ capacityRequests: 0, refusal: null });
  expect(await run()).toMatchObject({ status: "running" });
});

test("resuming a finished run resets the fleet that it gave up on: evaluations may wait for it", async () => {
  const { store, resume } = await started();
  const key = tableKeys.fleet("test", "eval");
  await store.table.insert(key, { ...emptyFleetRecord("test", "eval"), capacityRequests: 6 });
  await store.table.update(endRun("test", "finished"));
  await resume();
  expect(await store.table.get(key)).toMatchObject({ capacityRequests: 0 });
});

test("a finished run that has spent its hours needs a larger budget for its evaluations, and stays finished; once they are done, it needs none", async () => {
  const { store, run, resume } = await started();
  await store.table.update(endRun("test", "finished"));
  store.clock.storeTime = async () => 9 * HOUR;
  await expect(resume()).rejects.toThrow(/8\.00 of 2 hours .*--budget-hours/);
  await resume({ hours: 20 });
  expect(await run()).toMatchObject({ status: "finished", maxHours: 20 });
  store.clock.storeTime = async () => 90 * HOUR;
  await expect(resume()).rejects.toThrow(/89\.00 of 20 hours/);
  for (const item of await store.table.query(tableKeys.run("test").pk, tablePrefixes.jobs)) {
    const job = JobRecord.parse(item);
    const score = { n: 9, correct: 3, runs: [], interval: { low: 0, high: 1 } };
    const { job: id, team, suite } = job;
    const result: EvaluationResult = {
      run: "test",
      job: id,
      team,
      suite,
      ...score,
      lost: [],
      questions: [],
      seconds: 1,
    };
    await store.objects.commit(objectKeys.evaluation("test", id), new TextEncoder().encode(JSON.stringify(result)));
    await store.table.update(finishJob(job, score));
  }
  await resume();
  expect(await run()).toMatchObject({ status: "finished", maxHours: 20 });
});

test("an increase of one budget does not resume a run that has spent another", async () => {
  const { store, run, resume, later } = await started(
    teamConfig({ budget: { hours: 2, usd: 1, usdPerWorkerHour: { "*": 1 } } }),
  );
  await store.table.insert(tableKeys.toolSpending("test"), { ...TOOLS_SPENT, microUsd: 2_000_000, maxUsd: 1.5 });
  await later(3);
  expect(await run()).toMatchObject({ status: "halted" });
  const refused = async (raised: object, message: string) => {
    await expect(resume(raised)).rejects.toMatchObject({
      code: "run-halted",
      message: expect.stringContaining(message),
    });
    expect(await run()).toMatchObject({ status: "halted", maxHours: 2, maxUsd: 1 });
    expect(await store.table.get(tableKeys.toolSpending("test"))).toMatchObject({ maxCalls: 3, maxUsd: 1.5 });
  };
  await refused({ hours: 10 }, "--budget-usd");
  await refused({ usd: 9 }, "--budget-hours");
  await refused({ hours: 10, usd: 9 }, "--budget-tool-calls");
  await refused({ hours: 10, usd: 9, toolCalls: 14 }, "--budget-tool-usd");
  await resume({ hours: 10, usd: 9, toolCalls: 14, toolUsd: 3 });
  expect(await run()).toMatchObject({ status: "running", maxHours: 10, maxUsd: 9 });
});

test("a run whose tool budget is spent is refused until that budget is raised; a tool budget or limit that it does not have cannot be raised", async () => {
  const { store, run, resume } = await started(teamConfig());
  await expect(resume({ toolCalls: 1 })).rejects.toThrow("run 'test' has no metered tools");
  await store.table.insert(tableKeys.toolSpending("test"), TOOLS_SPENT);
  await store.table.update(endRun("test", { code: "user", reason: "its tools' budget is spent" }));
  await expect(resume()).rejects.toMatchObject({ code: "run-halted", message: expect.stringContaining("3 calls") });
  await expect(resume({ toolUsd: 1 })).rejects.toThrow("no tools.budget.run.usd to raise");
  await resume({ toolCalls: 14 });
  expect(await run()).toMatchObject({ status: "running" });
  expect(await store.table.get(tableKeys.toolSpending("test"))).toMatchObject({ maxCalls: 14, calls: 4 });
});
