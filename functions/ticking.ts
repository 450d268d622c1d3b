/**
 * @file tick: read a snapshot, let core decide, execute its commands, and repeat until there are none. A scheduled tick first repairs
 * the run, and at its end records evaluation results whose event was lost. A process runs one tick of a run at a time. Calls that arrive during
 * a tick share the next one:
 *
 *     idle ──call──> running ──call──> running, one more requested ──> running …
 */
import pLimit from "p-limit";
import type { RunConfig } from "../core/contracts/config.ts";
import type { JobRecord, RunRecord, StepRecord } from "../core/contracts/records.ts";
import { ownsPolicy } from "../core/contracts/shared-policy.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import { LOST_ROLLOUTS_WINDOW, lostRollouts } from "../core/training/lost-rollouts.ts";
import { readExpiredVersion } from "../core/training/retention.ts";
import { advance, type ExpiredManifest, type StepSnapshot, type StoredManifest } from "../core/training/step.ts";
import { type PlanBasis, policyAt, trainedAgents } from "../core/training/step-plan.ts";
import type { Context } from "./context.ts";
import { readOpenJobs, recordMissedResults } from "./evaluating.ts";
import { execute } from "./executing.ts";
import { archiveDamaged, archiveUnreadable, repair } from "./repair.ts";

/** Runs that a scheduled tick advances concurrently. */
const PARALLEL_RUNS = 8;

/** A tick that follows the current one. */
interface NextTick {
  thorough: boolean;
  done: Promise<void>;
}

interface RunTicks {
  readonly current: Promise<void>;
  next?: NextTick;
}

export class Ticker {
  readonly #context: Context;
  /** By run; absent while none of its ticks is under way. */
  readonly #ticks = new Map<string, RunTicks>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** Advances the run as far as currently possible. `thorough` (scheduled ticks): repairs first. */
  tick(run: string, thorough: boolean): Promise<void> {
    const ticks = this.#ticks.get(run);
    if (!ticks) return this.#start(run, thorough);
    if (ticks.next) {
      ticks.next.thorough ||= thorough;
      return ticks.next.done;
    }
    const next: NextTick = { thorough, done: Promise.resolve() };
    const startNext = () => this.#start(run, next.thorough);
    next.done = ticks.current.then(startNext, startNext);
    ticks.next = next;
    return next.done;
  }

  /**
   * The scheduled tick: a thorough tick of every run, several at once. A failing or slow run does not keep the others waiting. `onFailure`
   * receives each run's error; without it, this rejects with the first error after every run has had its turn. The errors include those of
   * scores that earlier ticks requested, a judge's failures among them.
   */
  async tickAll(onFailure?: (error: unknown) => void): Promise<void> {
    const { records, scoringQueue } = this.#context;
    const failures: unknown[] = [];
    const limit = pLimit(PARALLEL_RUNS);
    const tickOne = async (run: string) => {
      try {
        const record = await records.run(run).catch((error) => archiveUnreadable(this.#context, run, error));
        if (record) await this.tick(run, true);
        const failure = scoringQueue.takeFailure(run);
        if (failure !== undefined) throw failure;
      } catch (error) {
        if (onFailure) onFailure(error);
        else failures.push(error);
      }
    };
    const runs = await records.listedRuns();
    await Promise.all(runs.map(({ run }) => limit(() => tickOne(run))));
    if (failures.length > 0) throw failures[0];
  }

  #start(run: string, thorough: boolean): Promise<void> {
    const current = tickOnce(this.#context, run, thorough).finally(() => {
      if (!this.#ticks.get(run)?.next) this.#ticks.delete(run);
    });
    this.#ticks.set(run, { current });
    return current;
  }
}

/**
 * A thorough tick records evaluation results even if it fails to repair or advance the run, and it repairs and advances the run even if a
 * result is damaged. If both fail, rejects with the failure of the repair or advance: the damaged result fails again in the next tick.
 */
async function tickOnce(context: Context, run: string, thorough: boolean): Promise<void> {
  const record = await context.records.run(run);
  if (!record && thorough) throw new MgrpoError("not-found", `no run '${run}' in this store`);
  // An event may come before RUN exists: the start under way ends with a tick.
  if (!record || !thorough) return advanceRun(context, record);
  let openJobs: readonly JobRecord[];
  try {
    openJobs = await repair(context, record);
    await advanceRun(context, await context.records.run(run));
  } catch (error) {
    const recorded = readOpenJobs(context, run).then((jobs) => recordMissedResults(context, jobs));
    await recorded.catch(() => {});
    if (isMgrpoError(error, "record-damaged", "not-found")) await archiveDamaged(context, record).catch(() => {});
    throw error;
  }
  await recordMissedResults(context, openJobs);
}

async function advanceRun(context: Context, first: RunRecord | undefined): Promise<void> {
  for (let record = first; record?.status === "running"; record = await context.records.run(record.run)) {
    const snapshot = await readSnapshot(context, record);
    const commands = snapshot ? advance(snapshot) : [];
    if (commands.length === 0) return;
    await execute(context, commands);
  }
}

/** Reads what the step reducer needs, and no more. Undefined if nothing can be done before an open group is finalized. */
async function readSnapshot(context: Context, run: RunRecord): Promise<StepSnapshot | undefined> {
  const { records, runObjects } = context;
  const config = await runObjects.config(run.run);
  const { train } = await runObjects.questions(run.run);
  const steps = await records.steps(run.run, run.step, config.staleness + 1);
  const [first] = steps;
  const isPlanning = steps.length <= config.staleness;
  const complete = await readComplete(context, steps);
  if (first?.state === "open" && complete.size === 0 && !isPlanning) return undefined;
  const isSampled = first !== undefined && first.state !== "open";
  const [manifests, planned] = await Promise.all([
    isSampled ? readManifests(context, config, policyAt(config, first.step + 1)) : new Map<string, StoredManifest>(),
    isSampled && !isPlanning && records.isPlanned(run.run, run.step + steps.length),
  ]);
  return {
    config,
    questions: train,
    run,
    steps,
    planned,
    basis: planned ? NO_BASIS : await readBasis(context, config, run.step, steps),
    complete,
    manifests,
    agents: first?.state === "ready" && manifests.size > 0 ? await records.agents(run.run) : [],
    expired: planned || first?.state === "open" || run.step === 0 ? [] : await readExpired(context, config, run.step),
  };
}

const NO_BASIS: PlanBasis = { previous: undefined, sampled: undefined };

/** What the plan of the step after these is computed from. */
async function readBasis(
  { records }: Context,
  { run, staleness }: RunConfig,
  first: number,
  steps: readonly StepRecord[],
): Promise<PlanBasis> {
  const read = async (step: number) =>
    step < 0 ? undefined : (steps.find((one) => one.step === step) ?? records.step(run, step));
  const next = first + steps.length;
  const [previous, sampled] = await Promise.all([read(next - 1), read(next - 1 - staleness)]);
  return { previous, sampled };
}

/** The groups of the open steps that have no open group. */
async function readComplete({ records }: Context, steps: readonly StepRecord[]): Promise<StepSnapshot["complete"]> {
  const opened = steps.filter(({ state }) => state === "open");
  const read = await Promise.all(
    opened.map(async (step) => {
      const groups = await records.groupsIfNoneOpen(step);
      if (!groups) return [];
      const hasLost = lostRollouts(groups.flatMap((group) => group ?? [])).length > 0;
      const earlier = hasLost ? await records.earlierGroups(step, LOST_ROLLOUTS_WINDOW - 1) : [];
      return [[step.step, { groups, earlier }] as const];
    }),
  );
  return new Map(read.flat());
}

/** The manifests of these versions, for the agents that have published them. An agent that shares another's policy publishes none. */
async function readManifests(
  { runObjects }: Context,
  { run, agents }: RunConfig,
  versions: Readonly<Record<string, number>>,
): Promise<Map<string, StoredManifest>> {
  const owners = Object.entries(versions).filter(([agent]) => ownsPolicy(agents, agent));
  const found = await Promise.all(
    owners.map(async ([agent, v]) => [agent, await runObjects.manifest(run, agent, v)] as const),
  );
  return new Map(found.flatMap(([agent, manifest]) => (manifest ? [[agent, manifest] as const] : [])));
}

/** Per trained agent, the manifest that version `newest` makes obsolete, and the manifests that may share its parts. */
async function readExpired(
  { runObjects, table }: Context,
  config: RunConfig,
  newest: number,
): Promise<ExpiredManifest[]> {
  const found = await readExpiredVersion(table, config, newest);
  if (!found) return [];
  const { version, neighbors } = found;
  const read = (agent: string, v: number) => runObjects.manifest(config.run, agent, v);
  const expired = await Promise.all(
    trainedAgents(config).map(async (agent) => {
      const kept = await Promise.all(neighbors.map((v) => read(agent, v)));
      const stored = await read(agent, version);
      return stored ? [{ manifest: stored.manifest, kept: kept.flatMap((k) => k?.manifest ?? []) }] : [];
    }),
  );
  return expired.flat();
}
