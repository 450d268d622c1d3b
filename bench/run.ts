/**
 * @file Measures a short atlas run, started as a user would start it: `store.bytes`, the bytes of all DynamoDB write requests per rollout (claims
 * and heartbeats included), and `step.overhead`, the share of wall time in which no engine is busy.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { startLocalCloud } from "../adapters/local-cloud/cloud.ts";
import { builtModule } from "../built-module.ts";
import { parseJson } from "../core/contracts/parse.ts";
import type { BusyInterval } from "../core/contracts/telemetry.ts";
import { readTelemetry } from "../gpu-workers/step-telemetry.ts";
import { print } from "./measurement.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const RUN = "bench";
const STEPS = 16;
/** The first steps trace graphs and warm caches, so `step.overhead` leaves them out. */
const WARM_UP_STEPS = 4;

const Report = z.object({ store: z.object({ bytesPerRollout: z.number() }) });

const folder = temporaryFolder("bench");
train(folder);
const config = { recipe: "atlas", steps: STEPS, evaluation: "none" };
const report = parseJson(Report, readFileSync(join(folder, "runs", RUN, "report.json")), "report.json");
print("store.bytes", report.store.bytesPerRollout, "bytes/rollout", config);
const perStep = await readIntervals(join(folder, "runs", RUN, "cloud"));
const overhead = idleShare(perStep.slice(0, WARM_UP_STEPS).flat(), perStep.slice(WARM_UP_STEPS).flat());
print("step.overhead", overhead, "share", { ...config, warmUpSteps: WARM_UP_STEPS });

function train(cwd: string): void {
  const settings = ["--steps", String(STEPS), "--run", RUN, "--set", "evaluation.suites=[]"];
  execFileSync(process.execPath, [fileURLToPath(builtModule("cli/mgrpo")), "train", "atlas", ...settings], {
    cwd,
    stdio: ["ignore", "ignore", "inherit"],
  });
}

/** Per step, the busy intervals of all its workers. */
async function readIntervals(directory: string): Promise<BusyInterval[][]> {
  const ignore = async () => {};
  const cloud = await startLocalCloud({ directory, handlers: { objectCreated: ignore, tick: ignore } });
  const { table, objects } = cloud.direct;
  try {
    const steps = Array.from({ length: STEPS }, async (_, step) => {
      const found = await readTelemetry({ table, objects }, RUN, step);
      return found.flatMap(({ sampling, training }) => [...sampling, ...training]);
    });
    return await Promise.all(steps);
  } finally {
    await cloud.close();
  }
}

/** 1 - union of the measured intervals / wall time, from the end of the warm-up to the last engine call. */
function idleShare(warmUp: readonly BusyInterval[], measured: readonly BusyInterval[]): number {
  const start = Math.max(...warmUp.map(([, end]) => end));
  const end = Math.max(...measured.map(([, last]) => last));
  let [busy, covered] = [0, start];
  for (const [from, to] of [...measured].sort(([a], [b]) => a - b)) {
    busy += Math.max(0, to - Math.max(from, covered));
    covered = Math.max(covered, to);
  }
  return 1 - busy / (end - start);
}
