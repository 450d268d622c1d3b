/** @file The list of runs that the schedule ticks: each write on its own. test/functions/archive.test.ts tests whole runs. */
import { expect, test } from "vitest";
import { tableKeys } from "../../../core/contracts/keys.ts";
import type { AgentRecord, GroupRecord, ListedRun, StepRecord, WorkerRecord } from "../../../core/contracts/records.ts";
import type { Table } from "../../../core/ports.ts";
import { CONVERSATION_DAYS } from "../../../core/training/retention.ts";
import {
  allRuns,
  archiveRun,
  listedRuns,
  noteProgress,
  progressOf,
  relistRun,
} from "../../../core/training/run-list.ts";
import type { StoreCommand } from "../../../core/training/store-commands.ts";
import { memoryTable } from "../../fakes/memory-store.ts";

const NOW = 10_000_500;
const HOUR = 3_600_000;
const key = tableKeys.listed("r");

/** Executes inserts and updates as the functions do. Any other command fails the test. */
async function execute(table: Table, commands: readonly StoreCommand[]): Promise<void> {
  for (const command of commands) {
    if (command.kind === "insert") for (const one of command.items) await table.insert(one.key, one.item);
    else if (command.kind === "update") await table.update(command.change);
    else expect.fail(command.kind);
  }
}

async function listed(item: ListedRun): Promise<Table> {
  const table = memoryTable();
  await table.insert(key, { ...item });
  return table;
}

const worker = (name: string, state: WorkerRecord["state"]): WorkerRecord => ({
  ...{ run: "r", worker: name, agent: "main", roles: ["rollout"], url: "", state, release: "1" },
  ...{ counter: 9, seenCounter: 9, seenAt: 0, inFlight: [] },
});

test("runs are listed unless they have an expiry; all runs are those and the archived ones, each once, sorted", async () => {
  const table = memoryTable();
  for (const run of ["b", "a"]) await table.insert(tableKeys.listed(run), { run });
  await table.insert(tableKeys.listed("old"), { run: "old", progress: "finished", progressAt: 1, expiresAt: 2 });
  for (const run of ["old", "aged"]) await table.insert(tableKeys.archived(run), { run });
  expect(await listedRuns(table)).toEqual([{ run: "a" }, { run: "b" }]);
  expect(await allRuns(table)).toEqual(["a", "aged", "b", "old"]);
});

test("a damaged entry of the list is listed by its run's name alone", async () => {
  const table = memoryTable();
  await table.insert(key, { run: "r", progress: 1 });
  expect(await listedRuns(table)).toEqual([{ run: "r" }]);
});

test("a resumed run is listed, without progress, whether it was listed, archived or gone", async () => {
  const fresh = { run: "r", progress: "", progressAt: NOW };
  for (const before of [
    { run: "r", progress: "0/open/3/1", progressAt: 1 },
    { run: "r", progress: "halted", progressAt: 1, expiresAt: 2 },
    { run: "r" },
  ]) {
    const table = await listed(before);
    await relistRun(table, "r", NOW);
    expect(await table.get(key)).toEqual(fresh);
  }
  const empty = memoryTable();
  await relistRun(empty, "r", NOW);
  expect(await empty.get(key)).toEqual(fresh);
});

test("an entry that exists is not inserted again", async () => {
  const table = await listed({ run: "r" });
  const update: Table["update"] = (change) => table.update(change);
  await relistRun({ update, insert: () => expect.fail("inserted") }, "r", NOW);
});

test("progress changes with the step, its state, every score and every version", () => {
  const step = { step: 3, state: "open" } as StepRecord;
  const group = (rollouts: number[]) =>
    ({ rollouts: Object.fromEntries(rollouts.map((k) => [k, { excluded: "" }])) }) as unknown as GroupRecord;
  const agents = [{ version: 2 }, { version: 3 }] as AgentRecord[];
  expect(progressOf(step, [group([0, 2]), undefined, group([1])], agents)).toBe("3/open/3/5");
  expect(progressOf({ ...step, state: "ready" }, [], [])).toBe("3/ready/0/0");
  expect(progressOf(undefined, [], agents)).toBe("none/none/0/5");
});

test("progress is recorded if it has changed, at most once a minute, and at once the first time", async () => {
  const before: ListedRun = { run: "r", progress: "0/open/3/1", progressAt: NOW - 60_000 };
  const table = await listed(before);
  await execute(table, noteProgress(before, "0/open/4/1", NOW));
  expect(await table.get(key)).toEqual({ run: "r", progress: "0/open/4/1", progressAt: NOW });
  expect(noteProgress(before, "0/open/3/1", NOW)).toEqual([]);
  expect(noteProgress(before, "0/open/4/1", NOW - 1)).toEqual([]);
  // A store's clock may start anywhere: an entry without a time is due.
  expect(noteProgress({ run: "r" }, "0/open/4/1", -5)).toHaveLength(1);
});

test("progress that was read before a resume, or another tick, is not written", async () => {
  for (const before of [{ run: "r", progress: "0/open/3/1", progressAt: 0 }, { run: "r" }]) {
    const current = { run: "r", progress: "", progressAt: 5 };
    const table = await listed(current);
    await execute(table, noteProgress(before, "0/open/4/1", NOW));
    expect(await table.get(key)).toEqual(current);
  }
  const table = await listed({ run: "r" });
  await execute(table, noteProgress({ run: "r" }, "0/open/4/1", NOW));
  expect(await table.get(key)).toMatchObject({ progress: "0/open/4/1" });
});

test("a run that has ended is marked with its status, and archived an hour later, to the millisecond", async () => {
  const running: ListedRun = { run: "r", progress: "9/closed/0/9", progressAt: 5 };
  const table = await listed(running);
  await execute(table, archiveRun(running, "finished", [worker("w1", "dead")], NOW));
  const over = { run: "r", progress: "finished", progressAt: NOW };
  expect(await table.get(key)).toEqual(over);
  expect(await table.get(tableKeys.archived("r"))).toBeUndefined();
  expect(archiveRun(over, "finished", [], NOW + HOUR - 1)).toEqual([]);
  await execute(table, archiveRun(over, "finished", [], NOW + HOUR));
  expect(await table.get(tableKeys.archived("r"))).toEqual({ run: "r" });
  // 13,600.5 seconds, rounded up.
  expect(await table.get(key)).toEqual({ ...over, expiresAt: 13_601 });
});

test("wherever a tick that archives a run stops, the run is still among all runs once the table has deleted its entry", async () => {
  const over: ListedRun = { run: "r", progress: "finished", progressAt: 0 };
  const commands = archiveRun(over, "finished", [worker("w1", "dead")], NOW);
  for (let writes = 0; writes <= commands.length; writes++) {
    const table = await listed(over);
    await execute(table, commands.slice(0, writes));
    if ((await table.get(key))?.["expiresAt"] !== undefined) await table.delete(key);
    expect(await allRuns(table), `after ${writes} of ${commands.length} writes`).toEqual(["r"]);
  }
});

test("a run whose entry has no time counts as ended at store time 0", () => {
  expect(archiveRun({ run: "r", progress: "halted" }, "halted", [], HOUR - 1)).toEqual([]);
  expect(archiveRun({ run: "r", progress: "halted" }, "halted", [], HOUR)).toHaveLength(2);
});

test("a run is not archived twice, nor while a worker is alive or draining", () => {
  const over: ListedRun = { run: "r", progress: "finished", progressAt: 0 };
  expect(archiveRun({ ...over, expiresAt: 1 }, "finished", [], NOW)).toEqual([]);
  for (const state of ["alive", "draining"] as const)
    expect(archiveRun(over, "finished", [worker("w1", "dead"), worker("w2", state)], NOW)).toEqual([]);
  expect(archiveRun(over, "finished", [worker("w1", "dead")], NOW)).not.toEqual([]);
});

test("records of dead workers expire 90 days after a finished run is archived; those of a halted run, which may be resumed, do not", async () => {
  const expiresAt = 10_001 + CONVERSATION_DAYS * 86_400;
  for (const status of ["finished", "halted"] as const) {
    const over: ListedRun = { run: "r", progress: status, progressAt: 0 };
    const table = await listed(over);
    const workers = [worker("w1", "dead"), worker("w2", "dead")];
    for (const one of workers) await table.insert(tableKeys.worker("r", one.worker), { ...one } as never);
    // w2 is alive when the commands are executed.
    await table.update({ key: tableKeys.worker("r", "w2"), set: [[["state"], "alive"]], when: [] });
    await execute(table, archiveRun(over, status, workers, NOW));
    expect((await table.get(tableKeys.worker("r", "w1")))?.["expiresAt"]).toBe(
      status === "finished" ? expiresAt : undefined,
    );
    expect((await table.get(tableKeys.worker("r", "w2")))?.["expiresAt"]).toBeUndefined();
  }
});

test("a run that was resumed since it was read stays listed, although it is also archived", async () => {
  const over: ListedRun = { run: "r", progress: "halted", progressAt: 0 };
  const table = await listed(over);
  await relistRun(table, "r", NOW);
  await execute(table, archiveRun(over, "halted", [], NOW));
  expect(await listedRuns(table)).toEqual([{ run: "r", progress: "", progressAt: NOW }]);
  expect(await allRuns(table)).toEqual(["r"]);
});
