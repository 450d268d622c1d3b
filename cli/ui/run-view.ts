/** @file The list of runs, and the views of one run as a whole: its curves, and what it is doing now. */
import type { WorkerRecord } from "../../core/contracts/records.ts";
import { sharedPolicies } from "../../core/contracts/shared-policy.ts";
import { describeStall, type StallDetector } from "../../core/monitoring/stall.ts";
import { heldOutShare } from "../../core/monitoring/team-evaluation.ts";
import { waitingFor } from "../../core/monitoring/waiting.ts";
import type { AgentView, DamagedRun, RunPulse, RunsView, RunView, WorkerView } from "../../ui/views.ts";
import { modelsOf } from "../local/base-models.ts";
import { readWait } from "../local/follow.ts";
import { heartbeatAge, readListed } from "../local/live.ts";
import { readRun, readSpending, readState } from "../local/read-records.ts";
import { findRun, readStatus } from "../local/run-folder.ts";
import { readStall } from "../local/stall.ts";
import { type RunsTableRow, readRows } from "../run-rows.ts";
import type { Source } from "../show/source.ts";
import { runWarnings } from "../warnings.ts";

/** Of two runs with the same name, lists the one in this folder, which comes first: every other view of that name shows it. */
export async function runsView(): Promise<RunsView> {
  const { rows, failure } = await readRows();
  const shown = rows.filter(({ run }, i) => rows.findIndex((one) => one.run === run) === i);
  return { runs: shown.map(runRow), failure: failure?.message ?? null };
}

function runRow(row: RunsTableRow | DamagedRun): RunsView["runs"][number] {
  if (row.state === "damaged") return row;
  const { run, recipe, arm, seed, state, reason, step, steps, models, reward, heldOut, seconds = null } = row;
  const { usd, heartbeatSeconds, wait, stall } = row;
  const facts = { run, recipe, arm, seed, state, reason, step, steps, models, reward, heldOut, seconds };
  return { ...facts, usd, heartbeatSeconds, wait, stall };
}

export async function runView(source: Source): Promise<RunView> {
  const { config, evaluations, state, reason, step } = source;
  const perStep = [...(await source.summaries())];
  const folder = findRun(config.run);
  const status = folder && readStatus(folder);
  const steps = status?.steps ?? (state === "finished" ? step : config.steps);
  const facts = {
    run: config.run,
    recipe: config.recipe,
    arm: config.arm,
    seed: config.seed,
    state,
    reason,
    step,
    steps,
    models: modelsOf(config),
    reward: perStep.at(-1)?.reward ?? {},
    heldOut: status?.heldOut ?? { before: heldOutShare(evaluations, 0), after: heldOutShare(evaluations, steps) },
    seconds: status?.seconds ?? null,
    usd: status ? status.usd : await source.read(async (store) => (await readSpending(store, config)).usd),
  };
  return {
    ...facts,
    writes: status?.writes ?? null,
    agents: agentViews(source),
    perStep,
    evaluations: [...evaluations],
    warnings: runWarnings(config, perStep),
    config: JSON.parse(JSON.stringify(config)),
  };
}

function agentViews({ config }: Source): AgentView[] {
  const policies = sharedPolicies(config.agents);
  return Object.entries(config.agents).map(([name, { model, system, tools, delegates }]) => ({
    name,
    model,
    system,
    tools: [...tools],
    delegates: [...delegates],
    ...(policies[name] && { shared: policies[name] }),
  }));
}

/**
 * The store of a halted run, or of a local run that no process trains, is not read: it may be closed. A run in a shared store may be finished
 * while its last team is still being evaluated, so it is read.
 * @param stepSeconds how long the newest closed step took; null: unknown.
 */
export async function runPulse(source: Source, detector: StallDetector, stepSeconds: number | null): Promise<RunPulse> {
  const { config, state, reason, step: closed, read } = source;
  const unread = { step: closed, openStep: null, wait: null, stall: null, usd: null, workers: [] };
  const isUnread = state === "halted" || (state !== "running" && findRun(config.run) !== undefined);
  if (isUnread) return { state, reason, closed, ...unread };
  return read(async (store) => {
    const run = await readRun(store, config.run);
    const now = await store.clock.storeTime();
    const records = run.status === "running" ? await readState(store, config, run) : undefined;
    const listed = records && (await readListed(store, config.run));
    const stall = records && (await readStall(store, config, detector, { state: records, now, stepSeconds, listed }));
    return {
      state,
      reason,
      closed,
      step: run.step,
      openStep: records?.step?.step ?? null,
      wait: (records ? waitingFor(config, records) : await readWait(store, config)) ?? null,
      stall: stall ? describeStall(stall) : null,
      usd: (await readSpending(store, config)).usd,
      workers: (records?.workers ?? []).map((worker) => workerView(worker, config.liveness.leaseSeconds, now)),
    };
  });
}

/** A counter above the one that tick last saw means that there was a heartbeat since: tick may check as rarely as once a minute. */
export function workerView(record: WorkerRecord, leaseSeconds: number, now: number): WorkerView {
  const { worker, agent, roles, state, counter, seenCounter } = record;
  const silentSeconds = heartbeatAge(record, now);
  const isSilent = state === "alive" && counter === seenCounter && (silentSeconds ?? 0) > leaseSeconds;
  return { worker, agent, roles, state, silentSeconds, isSilent };
}
