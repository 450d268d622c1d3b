/** @file The command line of `npm run simulate`. */
import { parseArgs } from "node:util";
import * as z from "zod";
import { parse } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Load } from "./plan.ts";

const OPTIONS = {
  /** The rate of all runs together. */
  "rollouts-per-minute": { type: "string" },
  /** The same, per hour. */
  "rollouts-per-hour": { type: "string" },
  /** Runs that share the rate; 1 by default. */
  runs: { type: "string" },
  agents: { type: "string", default: "5" },
  /** Hours that the totals cover; 1 by default. */
  hours: { type: "string" },
  /** A setting of the run, as in `mgrpo train --set`. */
  set: { type: "string", multiple: true, default: [] as string[] },
  /** One JSON object instead of text. */
  json: { type: "boolean", default: false },
  /** The rows of docs/scale.md, one after another. */
  table: { type: "boolean", default: false },
} as const;

const Arguments = z.strictObject({
  "rollouts-per-minute": z.coerce.number().positive().optional(),
  "rollouts-per-hour": z.coerce.number().positive().optional(),
  runs: z.coerce.number().int().min(1).max(100).optional(),
  agents: z.coerce.number().int().min(2, "a team has a main agent and at least one sub-agent").max(100),
  hours: z.coerce.number().positive().optional(),
  set: z.array(z.string()),
  json: z.boolean(),
  table: z.boolean(),
});

export interface SimulationRequest {
  readonly load: Load;
  readonly hours: number;
  readonly as: "text" | "json" | "table";
}

/** Throws `config-invalid`. */
export function readArguments(args: readonly string[]): SimulationRequest {
  const given = parse(Arguments, valuesOf(args), "simulate", "config-invalid");
  const {
    "rollouts-per-minute": perMinute,
    "rollouts-per-hour": perHour,
    runs,
    agents,
    hours,
    set,
    json,
    table,
  } = given;
  const rates = [perMinute, perHour].filter((rate) => rate !== undefined);
  if (table && (rates.length > 0 || runs !== undefined || hours !== undefined))
    throw refused(
      "--table uses fixed loads, each for an hour: leave out --rollouts-per-minute, --rollouts-per-hour, --runs and --hours",
    );
  if (table && json) throw refused("--table prints rows of text: leave out --json");
  if (!table && rates.length !== 1)
    throw refused("give one of --rollouts-per-minute and --rollouts-per-hour, for instance --rollouts-per-minute 100");
  const load = { rolloutsPerMinute: perMinute ?? (perHour ?? 0) / 60, runs: runs ?? 1, agents, set };
  return { load, hours: hours ?? 1, as: table ? "table" : json ? "json" : "text" };
}

function valuesOf(args: readonly string[]): unknown {
  try {
    return parseArgs({ options: OPTIONS, args: [...args] }).values;
  } catch (error) {
    throw refused(`${(error as Error).message} (options: --${Object.keys(OPTIONS).join(", --")})`);
  }
}

const refused = (message: string) => new MgrpoError("config-invalid", message);
