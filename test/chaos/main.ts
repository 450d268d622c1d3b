/**
 * @file `npm run chaos -- --minutes 10 --seed 1`: trials until the time is up, each with the next seed, and a report. A trial that breaks a
 * law is replayed with ever shorter schedules; the shortest one that fails is written to a file. Exit code 1 if any failed. Every trial with
 * a drawn schedule is added to the report, with the commit, when it ends; replays and shrunk schedules are not. A seed that the report
 * already has for this commit and number of steps is skipped, unless a tracked file outside results/ differs from the commit.
 *
 *     --minutes n      starts no trial after this time (default 5)
 *     --trials n       runs at most this many (default: no limit)
 *     --seed s         the first seed (default 1)
 *     --steps n        steps of each run (default 3); with 90, a trial takes from four minutes to half an hour
 *     --replay file    one schedule, instead of drawn ones
 *     --to folder      where reports go (default runs/chaos, which git ignores)
 *     --store d,s      ports of a store that is already running, DynamoDB's and S3's API, instead of the embedded cloud
 */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { isMgrpoError } from "../../core/errors.ts";
import { check, verdictsOf } from "./checker.ts";
import { drawSchedule } from "./draw-schedule.ts";
import type { Trial } from "./history.ts";
import { type ChaosOptions, type Line, readOptions, readSchedule, readTrials, reportIn } from "./options.ts";
import { referenceOf, type Schedule, sizeOf } from "./schedule.ts";
import { shrink } from "./shrink.ts";
import { starvedSeconds } from "./starvation.ts";
import { buildTrials, runTrial } from "./trial.ts";

const DEADLINE_SECONDS_PER_STEP = 80;
/** While shrinking: how many times a candidate schedule is tried before it counts as passing. */
const REPEATS = 2;
const SHRINK_MINUTES = 20;

const git = (...args: string[]) => execFileSync("git", args, { encoding: "utf8" }).trim();
const head = git("rev-parse", "--short=12", "HEAD");
/** The commit of HEAD, with `-dirty` if a tracked file outside results/ differs from it. */
const commit = git("status", "--porcelain", "--untracked-files=no", "--", ":!results") === "" ? head : `${head}-dirty`;

async function main(): Promise<void> {
  const chosen = readOptions(process.argv.slice(2));
  const replayed = chosen.replay === undefined ? undefined : readSchedule(chosen.replay);
  const recorded = readTrials(chosen.to);
  const steps = replayed?.steps ?? chosen.steps;
  const built = await buildTrials();
  try {
    const run: Run = (schedule) => runTrial(built, schedule, DEADLINE_SECONDS_PER_STEP * steps, chosen.store);
    const referenceFor = openReferences(run);
    const attempt = async (schedule: Schedule) => runAndCheck(run, schedule, await referenceFor(schedule));
    const lines: Line[] = [];
    const until = performance.now() + chosen.minutes * 60_000;
    for (const schedule of replayed ? [replayed] : drawnSchedules(chosen, recorded)) {
      if (performance.now() > until) break;
      const { line, trial } = await attempt(schedule);
      lines.push(line);
      process.stdout.write(`${textOf(line)}\n`);
      if (chosen.replay === undefined) recordTrial(chosen.to, line);
      if (line.violations.length > 0) await reportFailure(chosen, schedule, trial, line, attempt);
    }
    const failed = lines.filter(({ violations }) => violations.length > 0).length;
    process.stdout.write(`${lines.length} trials, ${failed} failed\n`);
    if (failed > 0) process.exitCode = 1;
  } finally {
    built.remove();
  }
}

/** The undisturbed trial of each kind of searcher and staleness, which runs when a schedule first needs it. */
function openReferences(run: Run): (schedule: Schedule) => Promise<Trial> {
  const known = new Map<string, Trial>();
  return async (schedule) => {
    const kind = kindOf(schedule);
    const found = known.get(kind);
    if (found) return found;
    const reference = await run(referenceOf(schedule));
    const violations = check({ trial: reference, reference });
    if (violations.length > 0)
      throw new Error(`the undisturbed trial breaks a law: ${violations[0]}\n${reference.log.join("\n")}`);
    process.stdout.write(`undisturbed, ${kind}: ${describe(reference)}\n`);
    known.set(kind, reference);
    return reference;
  };
}

function describe(trial: Trial): string {
  const { seconds, history } = trial;
  const ofFunctions = history.filter((entry) => entry.process === "functions").length;
  return `${seconds.toFixed(1)} s, ${history.length} requests (${ofFunctions} of the functions), ${verdictsOf(trial)} verdicts`;
}

function* drawnSchedules({ seed, steps, trials }: ChaosOptions, recorded: readonly Line[]): Generator<Schedule> {
  const isSame = (line: Line) => line.commit === commit && commit === head && line.steps === steps;
  const done = new Set(recorded.flatMap((line) => (isSame(line) ? [line.seed] : [])));
  for (let next = seed, left = trials; left > 0; next++) {
    if (done.has(next)) continue;
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
    searcher: schedule.searcher,
    staleness: schedule.staleness,
    size: sizeOf(schedule),
    deaths: trial.strikes.length,
    faultsMet: trial.history.filter(({ fault }) => fault !== undefined).length,
    requests: trial.history.length,
    seconds: toTenths(trial.seconds),
    ...(trial.starvation && {
      starvedSeconds: toTenths(starvedSeconds(trial.starvation, 0, Number.POSITIVE_INFINITY)),
    }),
    violations: check({ trial, reference }),
  };
  return { line, trial };
}

const kindOf = ({ searcher, staleness }: Pick<Line, "searcher" | "staleness">) =>
  `searcher ${searcher}, staleness ${staleness}`;

const toTenths = (value: number) => Math.round(value * 10) / 10;

const textOf = ({ seed, searcher, staleness, size, deaths, faultsMet, requests, seconds, violations, ...more }: Line) =>
  `seed ${seed} (${kindOf({ searcher, staleness })}): ${violations.length === 0 ? "passes" : "FAILS"}, ${seconds} s, ${size} disturbances planned, ${deaths} kills and stops, ${faultsMet} of ${requests} requests disturbed` +
  (more.starvedSeconds === undefined ? "" : `, at most ${more.starvedSeconds} s without a processor`) +
  violations.map((violation) => `\n    ${violation}`).join("");

async function reportFailure(
  { to, store }: ChaosOptions,
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
  const history = trial.history.map((entry) => JSON.stringify(entry)).join("\n");
  writeFileSync(join(to, `failed-${schedule.seed}.history.gz`), gzipSync(`${history}\n`));
  const on = store ? ` --store ${store.dynamo},${store.s3}` : "";
  process.stdout.write(`    shrinking; replay with: npm run chaos -- --replay ${file}${on}\n`);
  const shortest = await shrink(schedule, fails, () => performance.now() < until);
  writeFileSync(file, `${JSON.stringify(shortest)}\n`);
  process.stdout.write(
    `    shortest schedule that fails: ${sizeOf(shortest)} of ${sizeOf(schedule)} parts, in ${file}\n`,
  );
}

function recordTrial(folder: string, line: Line): void {
  mkdirSync(folder, { recursive: true });
  appendFileSync(reportIn(folder), `${JSON.stringify(line)}\n`);
}

try {
  await main();
} catch (error) {
  if (!isMgrpoError(error)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
// Nothing is left to wait for; a proxy's late answer must not keep the process alive.
process.exit();
