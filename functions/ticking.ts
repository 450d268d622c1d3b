/**
 * @file tick: read a snapshot, let core decide, execute its commands, and repeat until there are none. A process runs one tick of a run at
 * a time. Calls that arrive during a tick share the next one:
 *
 *     idle ──call──> running ──call──> running, one more requested ──> running …
 */
import pLimit from "p-limit";
import type { RunConfig } from "../core/contracts/config.ts";
import type { RunRecord } from "../core/contracts/records.ts";
import { ownsPolicy } from "../core/contracts/shared-policy.ts";
import { MgrpoError } from "../core/errors.ts";
import { LOST_ROLLOUTS_WINDOW, lostRollouts } from "../core/training/lost-rollouts.ts";
import { expiredVersion, neighbors } from "../core/training/retention.ts";
import { advance, type ExpiredManifest, type StepSnapshot, type StoredManifest } from "../core/training/step.ts";
import { policyAt, trainedAgents } from "../core/training/step-plan.ts";
import type { Context } from "./context.ts";
import { execute } from "./executing.ts";
import { repair } from "./repair.ts";

/** Runs that the clock ticks concurrently. */
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

  /** Advances the run as far as currently possible. `thorough` (the clock's ticks): repairs first. */
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
   * The clock's round: a thorough tick of every run, several at once. A failing or slow run does not keep the others waiting. `onFailure`
   * receives its error; without it, this rejects with the first error after every run has had its turn. The errors include those of scores
   * that earlier ticks requested, even a judge's.
   */
  async tickAll(onFailure?: (error: unknown) => void): Promise<void> {
    const { records, rescoring } = this.#context;
    const failures: unknown[] = [];
    const limit = pLimit(PARALLEL_RUNS);
    const tickOne = async (run: string) => {
      try {
        if (await records.run(run)) await this.tick(run, true);
        const failure = rescoring.takeFailure(run);
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

async function tickOnce(context: Context, run: string, thorough: boolean): Promise<void> {
  let record = await context.records.run(run);
  // If RUN does not exist yet, the run's start is under way and will end with a tick.
  if (!record && thorough) throw new MgrpoError("not-found", `no run '${run}' in this store`);
  if (record && thorough) {
    await repair(context, record);
    record = await context.records.run(run);
  }
  while (record?.status === "running") {
    const snapshot = await readSnapshot(context, record);
    const commands = snapshot ? advance(snapshot) : [];
    if (commands.length === 0) return;
    await execute(context, commands);
    record = await context.records.run(run);
  }
}

/**
 * Reads what the step reducer needs, and no more. Undefined if there is an open group: nothing can be done before it is finalized, so
 * the rest of the step is not read.
 */
async function readSnapshot(context: Context, run: RunRecord): Promise<StepSnapshot | undefined> {
  const { records, runObjects } = context;
  const config = await runObjects.config(run.run);
  const { train } = await runObjects.questions(run.run);
  const step = await records.step(run.run, run.step);
  const base: StepSnapshot = {
    config,
    questions: train,
    run,
    step,
    previous: undefined,
    planned: false,
    groups: [],
    earlier: [],
    manifests: new Map(),
    agents: [],
    expired: [],
  };
  if (!step) {
    if (run.step === 0) return base;
    const previous = await records.step(run.run, run.step - 1);
    return { ...base, previous, expired: await readExpired(context, config, run.step) };
  }
  if (step.state === "open") {
    const groups = await records.groupsIfNoneOpen(step);
    if (!groups) return undefined;
    const hasLostRollouts = lostRollouts(groups.flatMap((group) => group ?? [])).length > 0;
    return {
      ...base,
      groups,
      earlier: hasLostRollouts ? await records.earlierGroups(step, LOST_ROLLOUTS_WINDOW - 1) : [],
    };
  }
  const [manifests, planned] = await Promise.all([
    readManifests(context, config, policyAt(config, step.step + 1)),
    records.isPlanned(run.run, step.step + 1),
  ]);
  const agents = step.state === "ready" && manifests.size > 0 ? await records.agents(run.run) : [];
  const expired = planned ? [] : await readExpired(context, config, run.step);
  return { ...base, manifests, planned, agents, expired };
}

/** The manifests of these versions, for the agents that have published them. An agent with another's policy publishes none. */
async function readManifests(
  { runObjects }: Context,
  { run, agents }: RunConfig,
  versions: Readonly<Record<string, number>>,
): Promise<Map<string, StoredManifest>> {
  const published = Object.entries(versions).filter(([agent]) => ownsPolicy(agents, agent));
  const found = await Promise.all(
    published.map(async ([agent, v]) => [agent, await runObjects.manifest(run, agent, v)] as const),
  );
  return new Map(found.flatMap(([agent, manifest]) => (manifest ? [[agent, manifest] as const] : [])));
}

/** Per trained agent, the manifest that version `newest` makes obsolete, and the manifests that may share its parts. */
async function readExpired({ runObjects }: Context, config: RunConfig, newest: number): Promise<ExpiredManifest[]> {
  const version = expiredVersion(config, newest);
  if (version === undefined) return [];
  const read = (agent: string, v: number) => runObjects.manifest(config.run, agent, v);
  const expired = await Promise.all(
    trainedAgents(config).map(async (agent) => {
      const kept = await Promise.all(neighbors(config, version).map((v) => read(agent, v)));
      const stored = await read(agent, version);
      return stored ? [{ manifest: stored.manifest, kept: kept.flatMap((k) => k?.manifest ?? []) }] : [];
    }),
  );
  return expired.flat();
}
