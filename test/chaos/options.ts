/** @file What `npm run chaos` is given: its options, the schedule to replay, and the trials that the report already has. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import * as z from "zod";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import { Schedule, STEPS } from "./schedule.ts";

const Options = z.strictObject({
  minutes: z.coerce.number().positive().default(5),
  seed: z.coerce.number().int().nonnegative().default(1),
  steps: z.coerce.number().int().positive().default(STEPS),
  trials: z.coerce.number().int().positive().default(Number.MAX_SAFE_INTEGER),
  replay: z.string().optional(),
  to: z.string().default("runs/chaos"),
  store: z
    .string()
    .regex(/^\d+,\d+$/)
    .transform((ports) => ports.split(",").map(Number))
    .transform(([dynamo = 0, s3 = 0]) => ({ dynamo, s3 }))
    .optional(),
});
export type ChaosOptions = z.infer<typeof Options>;

/** Throws `config-invalid`. */
export const readOptions = (args: readonly string[]): ChaosOptions =>
  parse(Options, valuesOf(args), "chaos", "config-invalid");

function valuesOf(args: readonly string[]): unknown {
  const names = Object.keys(Options.shape);
  const options = Object.fromEntries(names.map((name) => [name, { type: "string" as const }]));
  try {
    return { ...parseArgs({ args: [...args], options }).values };
  } catch (error) {
    const message = `chaos: ${(error as Error).message} (options: --${names.join(", --")})`;
    throw new MgrpoError("config-invalid", message);
  }
}

/** Throws `not-found` or `record-damaged`. */
export function readSchedule(path: string): Schedule {
  if (!existsSync(path)) throw new MgrpoError("not-found", `chaos: ${path} does not exist: --replay names a schedule`);
  return parseJson(Schedule, readFileSync(path), path);
}

/** A trial in the report. Lines of older versions lack the staleness, some also `starvedSeconds`, the searcher, the commit or the number of steps. */
const Line = z.object({
  commit: z.string().optional(),
  seed: z.int(),
  steps: z.int().optional(),
  searcher: z.string().optional(),
  staleness: z.int().optional(),
  size: z.int(),
  deaths: z.int(),
  faultsMet: z.int(),
  requests: z.int(),
  seconds: z.number(),
  /** How long the process that waited longest for a processor did so. Also absent where that is not measured. */
  starvedSeconds: z.number().optional(),
  violations: z.array(z.string()),
});
export type Line = z.infer<typeof Line>;

export const reportIn = (folder: string): string => join(folder, "trials.jsonl");

/** The trials that the report in this folder has. Throws `record-damaged`, with the line's number. */
export function readTrials(folder: string): Line[] {
  const path = reportIn(folder);
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .flatMap((line, i) => (line === "" ? [] : [parseJson(Line, Buffer.from(line), `${path}:${i + 1}`)]));
}
