/** @file Runs a simulation from its command. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Figures } from "../../bench/simulate/figures.ts";
import { sum } from "../../core/statistics.ts";

const run = promisify(execFile);

export type Printed = Figures & { readonly problems: object };

export async function simulated(...load: string[]): Promise<{ figures: Printed; warnings: string }> {
  const command = ["dist/bench/simulate/main.js", ...load, "--json"];
  const { stdout, stderr } = await run(process.execPath, command, { maxBuffer: 1e7 });
  return { figures: JSON.parse(stdout), warnings: stderr };
}

/** Insertions of groups per rollout, and how many of them were refused. */
export const groupInsertions = ({ requestsPerRollout, refusedPerRollout }: Figures) =>
  [requestsPerRollout, refusedPerRollout].map((counts) =>
    sum(Object.entries(counts).flatMap(([name, count]) => (name.endsWith(" PutItem GROUP") ? [count] : []))),
  );
