/** @file Writes a finished or halted run to disk, from records, for tests of commands that read a run, such as `mgrpo ui` and `mgrpo show`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import type { Store } from "../../core/ports.ts";
import { config, type FinishedRun, fillFinishedRun, finishedRun } from "./records.ts";

export interface RecordedRun extends Partial<FinishedRun> {
  /** What differs in its config. */
  readonly config?: object;
  /** Why it was halted. Without a reason, it is finished. */
  readonly reason?: string;
  /** Writes more to its store. */
  readonly more?: (store: Store) => Promise<void>;
}

/** Writes the run under a project's `runs`. */
export async function recordRun(project: string, run: RecordedRun = {}): Promise<void> {
  const own = RunConfig.parse({ ...config, ...run.config });
  const folder = join(project, "runs", own.run);
  mkdirSync(folder, { recursive: true });
  const status = {
    ...{ run: own.run, recipe: own.recipe, arm: own.arm, seed: own.seed, steps: own.steps, step: 1 },
    ...{ state: run.reason ? "halted" : "finished", reason: run.reason ?? "", pid: 0, environment: {} },
    ...{ seconds: 1, scoringSeconds: 0, writes: { requests: 0, bytes: 0, units: 0 } },
    heldOut: { before: null, after: null },
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(own));
  writeFileSync(join(folder, "status.json"), JSON.stringify(status));
  writeFileSync(join(folder, "steps.jsonl"), `${JSON.stringify(summary)}\n`);
  const idle = async () => {};
  const handlers = { objectCreated: idle, tick: idle };
  const cloud = await startLocalCloud({ directory: join(folder, "cloud"), handlers });
  try {
    await fillFinishedRun(cloud.direct, { ...finishedRun, ...run });
    await run.more?.(cloud.direct);
  } finally {
    await cloud.close();
  }
}

/** Summarizes the step in records.ts. */
const summary: StepSummary = {
  ...{ step: 0, seconds: 1, reward: { main: 0.7, searcher: 0.8 }, correct: 2 / 3, wellFormed: 1, rollouts: 3 },
  ...{ sampledTokens: 30, excluded: 1, groups: 2, zeroVariance: 1, calls: { searcher: [1, 1, 1] } },
  ...{ duplicated: { searcher: 0 }, dropped: { searcher: 1 }, training: { main: null, searcher: null } },
  ...{ workers: {}, tokensPerSecond: null },
};
