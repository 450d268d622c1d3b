/** @file The views of a run as a whole: its list, its curves, and what it does now. */

import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { parse } from "../../core/contracts/parse.ts";
import { WorkerRecord } from "../../core/contracts/records.ts";
import type { Store } from "../../core/ports.ts";
import type { AgentView, RunPulse, RunRow, RunsView, RunView, WorkerView } from "../../ui/views.ts";
import { readRun, readSpending, readWait } from "../local/follow.ts";
import { readSteps } from "../local/history.ts";
import { findRun, readStatus } from "../local/run-folder.ts";
import { type Damaged, modelsOf, type Row, readRows } from "../run-rows.ts";
import type { Source } from "../show/source.ts";
import { runWarnings } from "../warnings.ts";

export async function runsView(): Promise<RunsView> {
  const { rows, failure } = await readRows();
  return { runs: rows.map(runRow), failure: failure?.message ?? null };
}

function runRow(row: Row | Damaged): RunsView["runs"][number] {
  if (row.state === "damaged") return row;
  const { run, recipe, arm, seed, state, reason, step, steps, models, heldOut, seconds = null } = row;
  const folder = findRun(run);
  const reward = folder ? (readSteps(folder).at(-1)?.reward ?? {}) : {};
  return { run, recipe, arm, seed, state, reason, step, steps, models, reward, heldOut, seconds };
}

export async function runView(source: Source): Promise<RunView> {
  const { config, evaluations, state, reason, step } = source;
  const perStep = [...(await source.summaries())];
  const folder = findRun(config.run);
  const status = folder && readStatus(folder);
  const row: RunRow = {
    run: config.run,
    recipe: config.recipe,
    arm: config.arm,
    seed: config.seed,
    state,
    reason,
    step,
    steps: config.steps,
    models: modelsOf(config),
    reward: perStep.at(-1)?.reward ?? {},
    heldOut: status?.heldOut ?? { before: null, after: null },
    seconds: status?.seconds ?? null,
  };
  return {
    ...row,
    main: config.main,
    agents: agentViews(source),
    perStep,
    evaluations: [...evaluations],
    warnings: runWarnings(config, perStep),
    config: JSON.parse(JSON.stringify(config)),
  };
}

const agentViews = ({ config }: Source): AgentView[] =>
  Object.entries(config.agents).map(([name, { model, system, tools, delegates }]) => ({
    name,
    model,
    system,
    tools: [...tools],
    delegates: [...delegates],
  }));

/** A run that is over is not read: its store may be closed. */
export async function runPulse({ config, state, reason, step, read }: Source): Promise<RunPulse> {
  if (state !== "running") return { state, reason, step, wait: null, usd: null, workers: [] };
  const now = await read(async (store) => ({
    run: await readRun(store, config.run),
    wait: (await readWait(store, config)) ?? null,
    usd: (await readSpending(store, config)).usd,
    workers: await readWorkers(store, config.run),
  }));
  const { run, ...rest } = now;
  return { state, reason, step: run.step, ...rest };
}

async function readWorkers({ table, clock }: Store, run: string): Promise<WorkerView[]> {
  const now = await clock.storeTime();
  const items = await table.query(tableKeys.run(run).pk, tablePrefixes.workers);
  return items.map((item) => {
    const { worker, agent, roles, state, seenAt } = parse(WorkerRecord, item, `WORKER of ${run}`);
    return { worker, agent, roles, state, silentSeconds: Math.max(0, (now - seenAt) / 1000) };
  });
}
