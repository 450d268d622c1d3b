/**
 * @file The list of runs that are ticked. The schedule ticks every listed run once a minute, so runs that are over leave the list: otherwise
 * old runs would take time from active ones.
 *
 *     start, resume ──> listed ──over for an hour──> archived ──the table's TTL──> deleted; named in the archive forever
 *
 * Invariant: once a resume has returned, its run is listed. Resume sets RUN to running, then lists the run and resets its progress. A tick
 * that read RUN earlier archives only if the item says that the run is over, both when read and when written: so either resume lists the
 * run after it was archived, or the tick's write fails.
 */
import { tableKeys, tablePrefixes } from "../contracts/keys.ts";
import {
  type AgentRecord,
  type GroupRecord,
  ListedRun,
  type StepRecord,
  type WorkerRecord,
} from "../contracts/records.ts";
import type { Table, TableChange, TableCondition } from "../ports.ts";
import { expiryOf } from "./retention.ts";
import { insert, type StoreCommand, update } from "./store-commands.ts";

/** Milliseconds that a run stays listed once it is recorded as over, for late events and evaluations. */
const ARCHIVE_AFTER_MILLISECONDS = 3_600_000;
/** Minimum milliseconds between two writes of a run's progress. */
const NOTE_EVERY_MILLISECONDS = 60_000;

/** The runs that the schedule ticks. An item that cannot be read is listed by its name alone, so that only the tick of its own run fails. */
export async function listedRuns(table: Pick<Table, "query">): Promise<ListedRun[]> {
  const items = await table.query(tableKeys.listed("").pk, tablePrefixes.runs);
  const listed = items.filter((item) => item["expiresAt"] === undefined);
  return listed.map((item) => ListedRun.safeParse(item).data ?? { run: String(item["run"]) });
}

/** The names of all runs, archived ones included. */
export async function allRuns(table: Pick<Table, "query">): Promise<string[]> {
  const [listed, archived] = await Promise.all(
    [tableKeys.listed(""), tableKeys.archived("")].map(({ pk }) => table.query(pk, tablePrefixes.runs)),
  );
  return [...new Set([...(listed ?? []), ...(archived ?? [])].map(({ run }) => String(run)))].sort();
}

/** Lists a resumed run. Call it once RUN records the run as running. */
export async function relistRun(
  table: Pick<Table, "insert" | "update">,
  run: string,
  storeTime: number,
): Promise<void> {
  const key = tableKeys.listed(run);
  const { item } = await table.update({
    key,
    set: [
      [["progress"], ""],
      [["progressAt"], storeTime],
    ],
    remove: [["expiresAt"]],
    when: [],
  });
  if (!item) await table.insert(key, { run, progress: "", progressAt: storeTime });
}

/** Changes with every scored rollout, new version and step. */
export function progressOf(
  step: StepRecord | undefined,
  groups: readonly (GroupRecord | undefined)[],
  agents: readonly AgentRecord[],
): string {
  const scores = groups.reduce((sum, group) => sum + Object.keys(group?.rollouts ?? {}).length, 0);
  const versions = agents.reduce((sum, { version }) => sum + version, 0);
  return `${step?.step ?? "none"}/${step?.state ?? "none"}/${scores}/${versions}`;
}

/** Records a running run's progress, which is a write, so at most once a minute. */
export function noteProgress(listed: ListedRun, progress: string, storeTime: number): StoreCommand[] {
  const { progressAt = Number.NEGATIVE_INFINITY } = listed;
  const isDue = listed.progress !== progress && storeTime - progressAt >= NOTE_EVERY_MILLISECONDS;
  return isDue ? [update(setProgress(listed, progress, storeTime))] : [];
}

/**
 * For a run that is halted, or finished with nothing left to evaluate: once all its workers are dead, records the status as its progress,
 * and an hour later archives the run. `workers`: those that still have a WORKER record (past-workers.ts).
 */
export function archiveRun(
  listed: ListedRun,
  status: "finished" | "halted",
  workers: readonly WorkerRecord[],
  storeTime: number,
): StoreCommand[] {
  if (listed.expiresAt !== undefined || workers.some(({ state }) => state !== "dead")) return [];
  if (listed.progress !== status) return [update(setProgress(listed, status, storeTime))];
  if (storeTime - (listed.progressAt ?? 0) < ARCHIVE_AFTER_MILLISECONDS) return [];
  // A halted run may be resumed, and its budget counts the heartbeats in these records.
  const expired = status === "finished" ? workers : [];
  return [
    insert({ key: tableKeys.archived(listed.run), item: { run: listed.run } }),
    ...expired.map((worker) => update(expireWorker(worker, storeTime))),
    update({
      key: tableKeys.listed(listed.run),
      set: [[["expiresAt"], Math.ceil(storeTime / 1000)]],
      when: [isUnchanged(listed)],
    }),
  ];
}

function setProgress(listed: ListedRun, progress: string, storeTime: number): TableChange {
  return {
    key: tableKeys.listed(listed.run),
    set: [
      [["progress"], progress],
      [["progressAt"], storeTime],
    ],
    when: [isUnchanged(listed)],
  };
}

function isUnchanged({ progress }: ListedRun): TableCondition {
  return progress === undefined ? { absent: ["progress"] } : { equals: [["progress"], progress] };
}

function expireWorker({ run, worker }: WorkerRecord, storeTime: number): TableChange {
  return {
    key: tableKeys.worker(run, worker),
    set: [[["expiresAt"], expiryOf(storeTime)]],
    when: [{ equals: [["state"], "dead"] }],
  };
}
