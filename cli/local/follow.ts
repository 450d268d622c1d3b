/**
 * @file Follows a run through its records: every closed step, every finished evaluation, what the run waits for, and its end. It only reads, so
 * following a run never changes it.
 *
 *     event          waits for                                                      unblocked by
 *     next step      RUN.step: all manifests of the step exist                      tick
 *     evaluation     JOB is `done`                                                  record-evaluation
 *     optimizer      AGENT has the probe result of its server's optimizer           the agent's worker
 *     stalled        no score or version for too long (core/monitoring/stall.ts)    time alone
 *     trained        RUN is `finished`                                              tick
 *     end            RUN is `halted`, or `finished` and every due evaluation done   a halt, record-evaluation
 */
import type { RunConfig } from "../../core/contracts/config.ts";
import type { JobRecord } from "../../core/contracts/records.ts";
import type { OptimizerProbe } from "../../core/contracts/server-optimizer.ts";
import type { RunState } from "../../core/monitoring/run-state.ts";
import { describeStall, StallDetector } from "../../core/monitoring/stall.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import { evaluationOf, sortEvaluations, type TeamEvaluation } from "../../core/monitoring/team-evaluation.ts";
import { waitingFor } from "../../core/monitoring/waiting.ts";
import type { Store } from "../../core/ports.ts";
import { dueSuites } from "../../core/training/evaluation.ts";
import { counted } from "../terminal/columns.ts";
import { describeLosses, findResult } from "./lost-answers.ts";
import { readJobs, readOptimizers, readRun, readState, readSummary, suiteOf } from "./read-records.ts";
import { readStall } from "./stall.ts";

export type RunEvent =
  | { readonly kind: "step"; readonly summary: StepSummary }
  /** `lost`: how many of its answers are lost and not counted, and why; absent if none is. */
  | { readonly kind: "evaluation"; readonly evaluation: TeamEvaluation; readonly lost?: string }
  | { readonly kind: "optimizer"; readonly agent: string; readonly optimizer: OptimizerProbe }
  | { readonly kind: "waiting"; readonly step: number; readonly for: string }
  | { readonly kind: "stalled"; readonly step: number; readonly text: string }
  | { readonly kind: "trained" }
  | { readonly kind: "ended"; readonly status: "finished" | "halted"; readonly reason: string };

/**
 * While the run trains, the minimum time between reads of anything but the RUN record and closed steps: finding out
 * what a run waits for takes a dozen reads of a busy store.
 */
const DETAIL_SECONDS = 2;
/** Time between two reports of the same stall. */
const REPEAT_SECONDS = 300;

export interface FollowOptions {
  /** The first step to report. */
  readonly from: number;
  readonly pollSeconds: number;
  readonly signal: AbortSignal;
}

/** Ends after `ended`, or when the signal aborts. */
export async function* followRun(
  store: Store,
  config: RunConfig,
  { from, pollSeconds, signal }: FollowOptions,
): AsyncGenerator<RunEvent> {
  const { clock } = store;
  const timer = new StepTimer(from, clock.monotonic());
  const reported = new Set<string>();
  const stalls = new StallReporter(config);
  let detailsReadAt = Number.NEGATIVE_INFINITY;
  let isTrained = false;
  while (!signal.aborted) {
    const run = await readRun(store, config.run);
    const now = clock.monotonic();
    for (const { step, seconds } of timer.closedBy(run.step, now)) {
      stalls.stepSeconds = seconds;
      const summary = await readSummary(store, config, step, seconds);
      if (summary) yield { kind: "step", summary };
    }
    if (run.status === "finished" && !isTrained) {
      isTrained = true;
      yield { kind: "trained" };
    }
    if (run.status !== "running" || now - detailsReadAt >= DETAIL_SECONDS) {
      detailsReadAt = now;
      for (const found of await readOptimizers(store, config)) {
        if (reported.has(`optimizer of ${found.agent}`)) continue;
        reported.add(`optimizer of ${found.agent}`);
        yield { kind: "optimizer", ...found };
      }
      const jobs = sortEvaluations(config, await readJobs(store, config.run));
      for (const job of jobs.filter((one) => one.state === "done" && !reported.has(one.job))) {
        reported.add(job.job);
        const result = await findResult(store, job);
        const lost = result && describeLosses(result);
        const evaluation = evaluationOf(suiteOf(config, job.suite), job);
        yield { kind: "evaluation", evaluation, ...(lost !== undefined && { lost }) };
      }
      if (run.status === "halted") return yield { kind: "ended", status: "halted", reason: run.reason };
      const state = run.status === "running" ? await readState(store, config, run) : undefined;
      const wait = state ? waitingFor(config, state) : evaluationWait(config, run.step, jobs);
      if (wait === undefined) return yield { kind: "ended", status: "finished", reason: "" };
      yield { kind: "waiting", step: run.step, for: wait };
      const text = state && (await stalls.observe(store, state));
      if (text !== undefined) yield { kind: "stalled", step: run.step, text };
    }
    await clock.sleep(pollSeconds, signal);
  }
}

/** Reports a stall when it begins, and again every few minutes. */
class StallReporter {
  stepSeconds: number | null = null;
  readonly #config: RunConfig;
  readonly #detector: StallDetector;
  #reportAt = 0;

  constructor(config: RunConfig) {
    this.#config = config;
    this.#detector = new StallDetector(config);
  }

  async observe(store: Store, state: RunState): Promise<string | undefined> {
    const at = { state, now: await store.clock.storeTime(), stepSeconds: this.stepSeconds };
    const stall = await readStall(store, this.#config, this.#detector, at);
    if (!stall) this.#reportAt = 0;
    if (!stall || stall.seconds < this.#reportAt) return undefined;
    this.#reportAt = stall.seconds + REPEAT_SECONDS;
    return describeStall(stall);
  }
}

/** Times the steps that close while the run is followed. */
class StepTimer {
  /** The first step that has not been reported. */
  #next: number;
  /** When it began, or when following began. */
  #since: number;
  /** The open step when following began: earlier ones were not observed. */
  #first: number | undefined;

  constructor(next: number, now: number) {
    this.#next = next;
    this.#since = now;
  }

  /** The steps that closed since the last call, before step `open`. They split the time equally; `null`: not observed. */
  closedBy(open: number, now: number): { readonly step: number; readonly seconds: number | null }[] {
    const first = this.#first ?? open;
    this.#first = first;
    const observed = open - Math.max(this.#next, first);
    const seconds = (now - this.#since) / Math.max(1, observed);
    const closed = Array.from({ length: Math.max(0, open - this.#next) }, (_, i) => {
      const step = this.#next + i;
      return { step, seconds: step < first ? null : seconds };
    });
    if (closed.length > 0) this.#since = now;
    this.#next = Math.max(this.#next, open);
    return closed;
  }
}

/** What a run is doing or waiting for; undefined when it is over. */
export async function readWait(store: Store, config: RunConfig): Promise<string | undefined> {
  const run = await readRun(store, config.run);
  if (run.status === "halted") return undefined;
  if (run.status === "running") return waitingFor(config, await readState(store, config, run));
  return evaluationWait(config, run.step, await readJobs(store, config.run));
}

/** `evaluation 2 of 6: greedy after 0 steps`, for a finished run; undefined once every due evaluation is done. */
function evaluationWait(config: RunConfig, last: number, jobs: readonly JobRecord[]): string | undefined {
  const suites = config.evaluation.suites.map(({ name }) => name);
  const isQueued = (team: number, suite: string) => jobs.some((job) => job.team === team && job.suite === suite);
  // The jobs of the teams in between were queued while the run trained.
  const missing = [...new Set([0, last])].flatMap((team) =>
    dueSuites(config, team, team, team === last)
      .filter(({ name }) => !isQueued(team, name))
      .map(({ name }) => ({ team, suite: name, state: "queued" })),
  );
  const open = [...jobs, ...missing]
    .filter(({ state }) => state !== "done")
    .sort((a, b) => a.team - b.team || suites.indexOf(a.suite) - suites.indexOf(b.suite));
  const current = open.find(({ state }) => state === "leased") ?? open[0];
  if (!current) return undefined;
  const total = jobs.length + missing.length;
  return `evaluation ${total - open.length + 1} of ${total}: ${current.suite} after ${counted(current.team, "step")}`;
}
