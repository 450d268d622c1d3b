/**
 * @file `npm run chaos -- --minutes 10 --seed 1`: trials until the time is up, each with the next seed, and a report. A trial that breaks a
 * law is replayed with ever shorter schedules; the shortest one that fails is written to a file. Exit code 1 if any failed. Every trial with
 * a drawn schedule is added to the report, with the commit, when it ends; replays and shrunk schedules are not. A seed that the report
 * already has for this commit and number of steps is skipped.
 *
 *     --minutes n      starts no trial after this time (default 5)
 *     --trials n       runs at most this many (default: no limit)
 *     --seed s         the first seed (default 1)
 *     --steps n        steps of each run (default 3); with 90, a trial takes from four minutes to half an hour
 *     --replay file    one schedule, instead of drawn ones
 *     --to folder      where reports go (default runs/chaos, which git ignores)
 *     --store d,s      ports of a store that runs already, DynamoDB's and S3's API, instead of the embedded cloud
 */
import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import * as z from "zod";
import { check, verdictsOf } from "./checker.ts";
import type { Trial } from "./history.ts";
import { drawSchedule, Schedule, STEPS, sizeOf, undisturbed } from "./schedule.ts";
import { shrink } from "./shrink.ts";
import { buildTrials, runTrial } from "./trial.ts";

const DEADLINE_SECONDS_PER_STEP = 80;
/** While shrinking: how many times a candidate schedule is tried before it counts as passing. */
const REPEATS = 2;
const SHRINK_MINUTES = 20;

const Arguments = z.strictObject({
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

const commit = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], { encoding: "utf8" }).trim();

interface Line {
  readonly commit: string;
  readonly seed: number;
  readonly steps: number;
  readonly size: number;
  readonly deaths: number;
  readonly faultsMet: number;
  readonly requests: number;
  readonly seconds: number;
  readonly violations: readonly string[];
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string" },
      seed: { type: "string" },
      steps: { type: "string" },
      trials: { type: "string" },
      replay: { type: "string" },
      to: { type: "string" },
      store: { type: "string" },
    },
  });
  const chosen = Arguments.parse(values);
  const steps = replayed(chosen)?.steps ?? chosen.steps;
  const built = await buildTrials();
  try {
    const run: Run = (schedule) => runTrial(built, schedule, DEADLINE_SECONDS_PER_STEP * steps, chosen.store);
    const reference = await run({ ...undisturbed, steps });
    const violations = check({ trial: reference, reference });
    if (violations.length > 0)
      throw new Error(`the undisturbed trial breaks a law: ${violations[0]}\n${reference.log.join("\n")}`);
    process.stdout.write(`undisturbed: ${describe(reference)}\n`);
    const attempt = (schedule: Schedule) => runAndCheck(run, schedule, reference);
    const lines: Line[] = [];
    const until = performance.now() + chosen.minutes * 60_000;
    for (const schedule of schedulesOf(chosen)) {
      if (performance.now() > until) break;
      const { line, trial } = await attempt(schedule);
      lines.push(line);
      process.stdout.write(`${textOf(line)}\n`);
      if (chosen.replay === undefined) recordTrial(chosen.to, line);
      if (line.violations.length > 0) await reportFailure(chosen, schedule, trial, line, attempt);
    }
    const broken = lines.filter(({ violations }) => violations.length > 0).length;
    process.stdout.write(`${lines.length} trials, ${broken} broken\n`);
    if (broken > 0) process.exitCode = 1;
  } finally {
    built.remove();
  }
}

function describe(trial: Trial): string {
  const { seconds, history } = trial;
  const ofFunctions = history.filter((entry) => entry.process === "functions").length;
  return `${seconds.toFixed(1)} s, ${history.length} requests (${ofFunctions} of the functions), ${verdictsOf(trial)} verdicts`;
}

const replayed = ({ replay }: z.infer<typeof Arguments>): Schedule | undefined =>
  replay === undefined ? undefined : Schedule.parse(JSON.parse(readFileSync(replay, "utf8")));

function* schedulesOf(chosen: z.infer<typeof Arguments>): Generator<Schedule> {
  const only = replayed(chosen);
  if (only) {
    yield only;
    return;
  }
  const { seed, steps, trials, to } = chosen;
  const isSame = (line: Line) => line.commit === commit && line.steps === steps;
  const recorded = new Set(recordedTrials(to).flatMap((line) => (isSame(line) ? [line.seed] : [])));
  for (let next = seed, left = trials; left > 0; next++) {
    if (recorded.has(next)) continue;
    yield drawSchedule(next, steps);
    left--;
  }
}

type Run = (schedule: Schedule) => Promise<Trial>;
type Attempt = (schedule: Schedule) => Promise<{ readonly line: Line; readonly trial: Trial }>;

async function runAndCheck(run: Run, schedule: Schedule, reference: Trial): ReturnType<Attempt> {
  const trial = await run(schedule);
  const line: Line = {
    commit,
    seed: schedule.seed,
    steps: schedule.steps,
    size: sizeOf(schedule),
    deaths: trial.strikes.length,
    faultsMet: trial.history.filter(({ fault }) => fault !== undefined).length,
    requests: trial.history.length,
    seconds: Math.round(trial.seconds * 10) / 10,
    violations: check({ trial, reference }),
  };
  return { line, trial };
}

const textOf = ({ seed, size, deaths, faultsMet, requests, seconds, violations }: Line) =>
  `seed ${seed}: ${violations.length === 0 ? "holds" : "BROKEN"}, ${seconds} s, ${size} disturbances planned, ${deaths} kills and stops, ${faultsMet} of ${requests} requests disturbed` +
  violations.map((violation) => `\n    ${violation}`).join("");

async function reportFailure(
  { to, store }: z.infer<typeof Arguments>,
  schedule: Schedule,
  trial: Trial,
  line: Line,
  attempt: Attempt,
): Promise<void> {
  const until = performance.now() + SHRINK_MINUTES * 60_000;
  const fails = async (candidate: Schedule) => {
    for (let i = 0; i < REPEATS; i++) if ((await attempt(candidate)).line.violations.length > 0) return true;
    return false;
  };
  mkdirSync(to, { recursive: true });
  const file = join(to, `failed-${schedule.seed}.json`);
  writeFileSync(file, `${JSON.stringify(schedule)}\n`);
  writeFileSync(join(to, `failed-${schedule.seed}.log`), `${[...line.violations, ...trial.log].join("\n")}\n`);
  const on = store ? ` --store ${store.dynamo},${store.s3}` : "";
  process.stdout.write(`    shrinking; replay with: npm run chaos -- --replay ${file}${on}\n`);
  const shortest = await shrink(schedule, fails, () => performance.now() < until);
  writeFileSync(file, `${JSON.stringify(shortest)}\n`);
  process.stdout.write(
    `    shortest schedule that fails: ${sizeOf(shortest)} of ${sizeOf(schedule)} parts, in ${file}\n`,
  );
}

const reportIn = (folder: string) => join(folder, "trials.jsonl");

function recordedTrials(folder: string): Line[] {
  if (!existsSync(reportIn(folder))) return [];
  return readFileSync(reportIn(folder), "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

function recordTrial(folder: string, line: Line): void {
  mkdirSync(folder, { recursive: true });
  appendFileSync(reportIn(folder), `${JSON.stringify(line)}\n`);
}

await main();
// Nothing is left to wait for; a proxy's late answer must not keep the process alive.
process.exit();
