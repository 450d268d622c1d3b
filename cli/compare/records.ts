/**
 * @file The record of each finished run of a comparison, under results/<name>/runs/: small enough to commit, and the only source of its
 * tables and charts. A comparison can thus resume in another clone or on another machine, and be redrawn without training.
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import * as z from "zod";
import { Arm } from "../../core/contracts/config.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import { differences } from "../../core/training/differences.ts";
import { HeldOutScores } from "../held-out/scores.ts";
import { writeAtomically } from "../local/run-folder.ts";
import { RunReport } from "../run-report.ts";
import type { PlannedRun } from "./plan.ts";
import { currentProvenance, Provenance } from "./provenance.ts";

/** What a comparison reads from a run's folder. */
export interface TrainedRun {
  readonly report: RunReport;
  readonly heldOut: readonly HeldOutScores[];
}

export interface FinishedRun extends TrainedRun {
  readonly by: Provenance;
}

const RunRecord = z.strictObject({
  /** The arguments of `train`. */
  made: z.strictObject({ recipe: z.string(), arm: Arm, seed: z.int(), set: z.array(z.string()) }),
  by: Provenance,
  report: RunReport,
  heldOut: z.array(HeldOutScores),
});

/** `results`: the comparison's folder. */
export function keepRecord(results: string, planned: PlannedRun, { report, heldOut }: TrainedRun): void {
  const path = recordPath(results, planned.config.run);
  mkdirSync(join(results, "runs"), { recursive: true });
  const record = RunRecord.parse({ made: settingsOf(planned), by: currentProvenance(), report, heldOut });
  writeAtomically(path, gzipSync(JSON.stringify(record), { level: 9 }));
}

/** Undefined if there is none. Throws if the record is of a run with other settings. */
export function readRecord(results: string, planned: PlannedRun): FinishedRun | undefined {
  const path = recordPath(results, planned.config.run);
  if (!existsSync(path)) return undefined;
  const { made, ...finished } = parseJson(RunRecord, unzipped(path), path);
  const found = differences(settingsOf(planned), made);
  if (found.length === 0) return finished;
  throw new MgrpoError(
    "config-invalid",
    `${path} is of a run with other settings: ${found.join("; ")}; compare under another --name, or remove that file`,
  );
}

function recordPath(results: string, run: string): string {
  return join(results, "runs", `${run}.json.gz`);
}

function unzipped(path: string): Uint8Array {
  try {
    return gunzipSync(readFileSync(path));
  } catch (error) {
    throw new MgrpoError("record-damaged", `${path} is damaged (${(error as Error).message}): remove it`);
  }
}

function settingsOf({ config: { recipe, arm, seed }, set }: PlannedRun): z.infer<typeof RunRecord>["made"] {
  return { recipe, arm, seed, set: [...set] };
}
