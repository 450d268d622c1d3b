/**
 * @file Workers that are long dead leave the WORKER records, which workers read up to once per heartbeat interval: a run whose workers
 * come and go for weeks has thousands of them.
 *
 *     WORKER, dead ──an hour, and nothing needs it──> copied to PAST ──> its heartbeats added to RUN.past ──> WORKER deleted
 *
 * A worker is needed while it holds a rollout, a job or the training of an agent. So are the dead workers of an agent that no live worker
 * serves: they show that its workers died. PAST says which workers measured a step (telemetry), as long as such measurements are kept.
 *
 * Every worker's heartbeats count once toward the budget. One write adds those of a move to RUN.past and names its workers there. WORKER
 * records of these workers do not count. The next move waits until all of them are deleted.
 */
import { tableKeys } from "../contracts/keys.ts";
import type {
  AgentRecord,
  GroupRecord,
  JobRecord,
  PastWorkers,
  RunRecord,
  WorkerRecord,
} from "../contracts/records.ts";
import type { TableChange, TableCondition } from "../ports.ts";
import { undecidedRollouts } from "./abandon-rollouts.ts";
import { expiryOf } from "./retention.ts";
import { insert, type StoreCommand, update } from "./store-commands.ts";

/** How long a dead worker's record is kept: time for late observers, and for readers of logs and views. */
const KEPT_MILLISECONDS = 3_600_000;
/** Workers of one move. RUN, which every poll reads, names them. */
const MAX_MOVED = 20;

/** What may need a worker's record. */
export interface WorkerUses {
  /** Open ones. */
  readonly groups: readonly GroupRecord[];
  readonly agents: readonly AgentRecord[];
  /** Open ones. */
  readonly jobs: readonly JobRecord[];
}

/**
 * Moves workers that nothing needs, or completes the last move. `record`: read before `workers`. `storeTime` in ms. `seenAt` of a
 * dead worker: when tick saw its last heartbeat (`observeWorkers`).
 */
export function movePastWorkers(
  record: RunRecord,
  workers: readonly WorkerRecord[],
  uses: WorkerUses,
  storeTime: number,
): StoreCommand[] {
  const left = workers.filter(({ worker }) => record.past?.newest.includes(worker));
  if (left.length > 0) return left.map(deletion);
  const served = new Set(workers.filter(({ state }) => state !== "dead").map(({ agent }) => agent));
  const holders = holdersOf(uses);
  const past = workers
    .filter(({ state, agent, worker }) => state === "dead" && served.has(agent) && !holders.has(worker))
    .filter(({ counter, seenCounter, seenAt }) => counter === seenCounter && storeTime - seenAt > KEPT_MILLISECONDS)
    .slice(0, MAX_MOVED);
  if (past.length === 0) return [];
  const expiresAt = expiryOf(storeTime);
  return [
    insert(...past.map((one) => ({ key: tableKeys.past(one.run, one.worker), item: { ...one, expiresAt } }))),
    update(countPast(record, past), past.map(deletion)),
  ];
}

const deletion = ({ run, worker }: WorkerRecord): StoreCommand => ({
  kind: "delete-item",
  key: tableKeys.worker(run, worker),
});

/** Workers that hold something. */
function holdersOf({ groups, agents, jobs }: WorkerUses): ReadonlySet<string | undefined> {
  return new Set([
    ...groups.flatMap((group) => undecidedRollouts(group).map((k) => group.claims?.[k])),
    ...agents.map(({ trainer }) => trainer),
    ...jobs.map(({ owner }) => owner),
  ]);
}

function countPast({ run, past }: RunRecord, moved: readonly WorkerRecord[]): TableChange {
  const { moves, heartbeats }: Pick<PastWorkers, "moves" | "heartbeats"> = past ?? { moves: 0, heartbeats: {} };
  const all = heartbeatsOf(moved, heartbeats);
  const after: PastWorkers = { moves: moves + 1, heartbeats: all, newest: moved.map(({ worker }) => worker) };
  const isUnchanged: TableCondition = past ? { equals: [["past", "moves"], moves] } : { absent: ["past"] };
  return { key: tableKeys.run(run), set: [[["past"], after]], when: [isUnchanged] };
}

/** By agent, the heartbeats of all workers that the run has had. `record`: read before `workers`. */
export function allHeartbeats(
  { past }: Pick<RunRecord, "past">,
  workers: readonly WorkerRecord[],
): Record<string, number> {
  const present = workers.filter(({ worker }) => !past?.newest.includes(worker));
  return heartbeatsOf(present, past?.heartbeats);
}

function heartbeatsOf(
  workers: readonly WorkerRecord[],
  before: PastWorkers["heartbeats"] = {},
): Record<string, number> {
  const heartbeats = { ...before };
  for (const { agent, counter } of workers) heartbeats[agent] = (heartbeats[agent] ?? 0) + counter;
  return heartbeats;
}
