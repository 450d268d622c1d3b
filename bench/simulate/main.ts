/**
 * @file `npm run simulate -- --rollouts-per-minute 10000 --agents 5 --hours 1`: what a load demands of AWS, and which limit it hits first.
 * The functions, the store's adapters and the workers are real; models, machines and AWS are simulated, and time is virtual.
 */
import { setMaxListeners } from "node:events";
import { isMgrpoError } from "../../core/errors.ts";
import { readArguments } from "./arguments.ts";
import { figuresOf } from "./figures.ts";
import { printLoadTable } from "./loads.ts";
import { planOf } from "./plan.ts";
import { simulate } from "./simulation.ts";
import { formatReport } from "./simulation-report.ts";
import { installVirtualTime } from "./virtual-time.ts";

async function main() {
  const { load, hours, as } = readArguments(process.argv.slice(2));
  if (as === "table") return printLoadTable(load);
  const plan = planOf(load);
  const time = installVirtualTime();
  const problems = new Map<string, number>();
  const print = process.stdout.write.bind(process.stdout);
  // Tick logs its metrics to stdout, which nothing reads here.
  process.stdout.write = () => true;
  const window = await simulate(plan, time, (line) => {
    // Workers log what they were doing, functions their name.
    const { level, what, function: name, code, message, error }: Record<string, unknown> = JSON.parse(line);
    if (level === "info") return;
    const text = String(message ?? error ?? "").replace(/[\w-]{16,}|\d+/g, "…");
    const problem = [level, what ?? name, code, text].join(" ");
    problems.set(problem, (problems.get(problem) ?? 0) + 1);
  });
  const figures = figuresOf(load, hours, plan, window);
  const isJson = as === "json";
  const text = isJson
    ? JSON.stringify({ ...figures, problems: Object.fromEntries(problems) })
    : formatReport(figures, plan, window);
  const lines = [...problems].map(([problem, times]) => `\n${times} times: ${problem}`);
  await new Promise<void>((resolve) => print(`${[text, ...(isJson ? [] : lines)].join("\n")}\n`, () => resolve()));
}

// Every conversation of a step listens for the signal that ends it, as in a worker: more than ten listeners are not a leak.
setMaxListeners(0);

try {
  await main();
  process.exit(0);
} catch (error) {
  const text = error instanceof Error ? (isMgrpoError(error) ? error.message : error.stack) : String(error);
  process.stderr.write(`simulate: ${text}\n`);
  process.exit(1);
}
