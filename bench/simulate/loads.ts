/** @file The table of docs/scale.md: simulations of growing loads, each in its own process, because a process cannot leave virtual time. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { builtModule } from "../../built-module.ts";
import type { Figures } from "./figures.ts";
import type { Load } from "./plan.ts";
import { count, firstLimit } from "./simulation-report.ts";

type LoadSettings = Omit<Load, "rolloutsPerMinute" | "runs">;

const LOADS = [
  { perHour: 1e2, runs: 1 },
  { perHour: 1e3, runs: 1 },
  { perHour: 1e4, runs: 1 },
  { perHour: 1e5, runs: 1 },
  { perHour: 1e6, runs: 10 },
  { perHour: 1e6, runs: 1 },
] as const;
type TableLoad = (typeof LOADS)[number];
const HEAD = [
  "rollouts an hour",
  "workers",
  "write units a second, hottest partition (of 1,000)",
  "read units (of 3,000)",
  "largest item, bytes",
  "Lambda calls; seconds",
  "S3 PUTs; GETs and HEADs",
  "USD an hour; per 1,000 rollouts",
  "the nearest limit",
];

/** Prints each row as soon as it is computed. */
export function printLoadTable(settings: LoadSettings): void {
  printRow(HEAD);
  printRow(HEAD.map(() => "---"));
  for (const load of LOADS) printRow(rowOf(load, figuresOf(load, settings)));
}

function figuresOf({ perHour, runs }: TableLoad, { agents, set }: LoadSettings): Figures {
  const main = fileURLToPath(builtModule("bench/simulate/main"));
  const load = ["--rollouts-per-hour", String(perHour), "--runs", String(runs), "--agents", String(agents)];
  const settings = set.flatMap((setting) => ["--set", setting]);
  const command = [...process.execArgv, main, "--json", ...load, ...settings];
  return JSON.parse(execFileSync(process.execPath, command, { encoding: "utf8" }));
}

/** Totals are those of the requested rate, whether or not the runs reached it. */
export function rowOf({ perHour, runs }: TableLoad, figures: Figures): string[] {
  const { workers, limits, functions, s3, usd } = figures;
  const used = (what: RegExp) => count(limits.find((use) => what.test(use.what))?.used ?? 0);
  const total = Object.values(usd).reduce((sum, line) => sum + line, 0);
  return [
    runs === 1 ? count(perHour) : `${count(perHour)} in ${runs} runs`,
    count(workers),
    used(/^write units per second of a DynamoDB partition/),
    used(/^read units per second of a DynamoDB partition/),
    used(/^bytes of a DynamoDB item/),
    `${count(functions.invocations)}; ${count(functions.seconds)}`,
    `${count(s3.puts)}; ${count(s3.reads)}`,
    `${total.toFixed(3)}; ${((total * 1000) / perHour).toFixed(4)}`,
    firstLimit(figures),
  ];
}

const printRow = (cells: readonly string[]) => console.log(`| ${cells.join(" | ")} |`);
