/**
 * @file The record of each finished run of a comparison, under results/<name>/runs/: small enough to commit, and the only source of the
 * comparison's tables and charts. A comparison can thus resume in another clone or on another machine, and be redrawn without training.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import * as z from "zod";
import { Arm } from "../../core/contracts/config.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import { differences } from "../../core/training/differences.ts";
import { HeldOutScores } from "../held-out-scores.ts";
import { runFolder } from "../local/run-folder.ts";
import { writeAtomically } from "../local/written-files.ts";
import { RunReport } from "../run-report.ts";
import { makeFolder } from "../writable-folder.ts";
import type { PlannedRun } from "./plan.ts";
import { Provenance, provenanceDifferences, readOrigin } from "./provenance.ts";

/** A planned run, and the provenance that it has if this process starts it. */
export interface TraceableRun extends PlannedRun {
  readonly by: Provenance;
}

/** What a comparison reads from a run's folder. */
export interface TrainedRun {
  readonly report: RunReport;
  readonly heldOut: readonly HeldOutScores[];
}

export interface FinishedRun extends TrainedRun {
  readonly by: Provenance;
  /** How it differs from what this comparison would train. Empty unless such runs are accepted. */
  readonly mismatches: readonly string[];
}

/** The arguments of `train`. */
const TrainArguments = z.strictObject({ recipe: z.string(), arm: Arm, seed: z.int(), set: z.array(z.string()) });

/** The part that identifies a record. It can also be read from the records of other releases. */
const RecordOrigin = z.object({ made: TrainArguments, by: z.object(Provenance.shape) });

const FinishedRunRecord = z.strictObject({
  made: TrainArguments,
  /** What the run was trained with. */
  by: Provenance,
  report: RunReport,
  heldOut: z.array(HeldOutScores),
});

/** `results`: the comparison's folder. */
export function keepRecord(results: string, planned: TraceableRun, { report, heldOut }: TrainedRun): void {
  const { run } = planned.config;
  const by = readOrigin(runFolder(run)) ?? planned.by;
  makeFolder(join(results, "runs"));
  const record = FinishedRunRecord.parse({ made: argumentsOf(planned), by, report, heldOut });
  writeAtomically(recordPath(results, run), gzipSync(JSON.stringify(record), { level: 9 }));
}

/**
 * Undefined if there is none. Throws if it is the record of another run or, unless `mixed`, if anything in its settings or provenance but the
 * machine differs. Both are checked first: another release may have written the rest in a form that this one cannot read.
 */
export function readRecord(results: string, planned: TraceableRun, mixed: boolean): FinishedRun | undefined {
  const path = recordPath(results, planned.config.run);
  if (!existsSync(path)) return undefined;
  const json = unzipped(path);
  const unreadable = `${path}, which this release cannot read (remove it, or compare under another --name)`;
  const { made, by } = parseJson(RecordOrigin, json, unreadable);
  const { set, ...expected } = argumentsOf(planned);
  const other = differences(expected, { recipe: made.recipe, arm: made.arm, seed: made.seed });
  if (other.length > 0) throw mismatchError(`${path} is the record of another run`, other, "or remove that file");
  const mismatches = [...differences(set, made.set, "set"), ...provenanceDifferences(planned.by, by)];
  if (mismatches.length === 0 || mixed) {
    const { made: _, ...finished } = parseJson(FinishedRunRecord, json, unreadable);
    return { ...finished, mismatches };
  }
  throw mismatchError(
    `${path} was made with other settings, or from another commit, release, recipe, question set, config or base model`,
    mismatches,
    "remove that file, or keep it with --mixed",
  );
}

/** Why a run does not belong to this comparison, and what to do. */
export function mismatchError(what: string, found: readonly string[], remedy: string): MgrpoError {
  return new MgrpoError("config-invalid", `${what}: ${found.join("; ")}; compare under another --name, ${remedy}`);
}

export const hasRecord = (results: string, run: string): boolean => existsSync(recordPath(results, run));

function recordPath(results: string, run: string): string {
  return join(results, "runs", `${run}.json.gz`);
}

function unzipped(path: string): Uint8Array {
  const bytes = readFileSync(path);
  try {
    return gunzipSync(bytes);
  } catch (cause) {
    throw new MgrpoError("record-damaged", `${path} is damaged (${(cause as Error).message}): remove it`, { cause });
  }
}

function argumentsOf({ config: { recipe, arm, seed }, set }: PlannedRun): z.infer<typeof TrainArguments> {
  return { recipe, arm, seed, set: [...set] };
}
