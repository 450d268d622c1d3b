/**
 * @file `npm run soak -- --minutes 60`: trains the atlas team for that long, started as a user would start it, and takes a sample once a
 * minute, or more often if the soak is short: the memory and open files of each process but the evaluation workers, the files in the run's
 * folder, the records in its partition of the store, the duration of a step, and the time that `mgrpo show` takes for the run and for one
 * step. Writes samples.csv and charts, and prints for each quantity whether it is flat (trend.ts). Exit code 1 if any grows.
 * With `--collect`, garbage is collected twice a minute, so that memory grows only with what is in use (collect.ts). Linux only.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as z from "zod";
import { builtModule } from "../../built-module.ts";
import { parse, parseJson } from "../../core/contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { onStopSignal } from "../../gpu-workers/stop-signals.ts";
import { requireProc } from "../process-tree.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import { drawSeries } from "./chart.ts";
import { type SoakSample, takeSample } from "./sample.ts";
import { resultsOf, seriesOf, toCsv } from "./series.ts";

const RUN = "soak";
/** Seconds between two samples: at most 60, and short enough for 20 samples. */
const everySeconds = (minutes: number): number => Math.min(60, (60 * minutes) / 20);
const POLL_MS = 500;
/** More steps than any soak trains. */
const STEPS = 1_000_000;
const SETTINGS = [
  'evaluation.suites=[{"name":"held-out","questions":32}]',
  "evaluation.every=50",
  // The same levels throughout: harder ones would take longer.
  'curriculum=[{"from":0,"levels":[1,2]}]',
].flatMap((setting) => ["--set", setting]);

const Arguments = z.strictObject({ minutes: z.coerce.number().min(1), to: z.string().min(1), collect: z.boolean() });

async function main(): Promise<void> {
  const { minutes, to, collect } = parse(Arguments, valuesOf(process.argv.slice(2)), "soak", "config-invalid");
  requireProc("npm run soak");
  const folder = resolve(to);
  const project = temporaryFolder("soak");
  const samples = await soak(project, minutes, collect);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "samples.csv"), toCsv(samples));
  for (const [name, chart] of Object.entries(seriesOf(samples)))
    writeFileSync(join(folder, `${name}.svg`), drawSeries(chart));
  const results = resultsOf(samples);
  for (const result of results) console.log(JSON.stringify(result));
  if (results.some(({ verdict }) => verdict === "grows")) process.exitCode = 1;
}

function valuesOf(args: string[]): unknown {
  const options = {
    minutes: { type: "string", default: "60" },
    to: { type: "string", default: "results/soak" },
    collect: { type: "boolean", default: false },
  } as const;
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new MgrpoError(
      "config-invalid",
      `${(error as Error).message} (the options are --minutes, --to and --collect)`,
    );
  }
}

async function soak(project: string, minutes: number, collect: boolean): Promise<SoakSample[]> {
  const mgrpo = fileURLToPath(builtModule("cli/mgrpo"));
  const train = [mgrpo, "train", "atlas", "--run", RUN, "--steps", String(STEPS), ...SETTINGS];
  const preload = collect ? `--import ${builtModule("bench/soak/collect")}` : "";
  const env = { ...process.env, NODE_OPTIONS: `${process.env["NODE_OPTIONS"] ?? ""} ${preload}`.trim() };
  const child = spawn(process.execPath, train, { cwd: project, env, stdio: ["ignore", "ignore", "inherit"] });
  const ended = once(child, "exit");
  // A signal to this process alone ends the run, and with it the soak.
  const stopListening = onStopSignal(() => child.kill("SIGINT"));
  const samples: SoakSample[] = [];
  const earlyEnd = ended.then((): never => {
    throw new MgrpoError("run-halted", `the run ended after ${samples.length} samples: its last lines say why`);
  });
  const unlessEnded = <T>(work: Promise<T>): Promise<T> => Promise.race([work, earlyEnd]);
  const later = (milliseconds: number) => unlessEnded(pause(milliseconds, undefined, { ref: false }));
  try {
    let access = accessOf(project);
    for (; !access; access = accessOf(project)) await later(POLL_MS);
    const firstSeen = performance.now();
    const soaked = { pid: child.pid ?? 0, project, run: RUN, mgrpo, access, firstSeen };
    for (let n = 1; performance.now() - firstSeen < minutes * 60_000; n++) {
      await later(Math.max(0, firstSeen + n * everySeconds(minutes) * 1000 - performance.now()));
      const sample = await unlessEnded(takeSample(soaked, samples.at(-1)?.steps ?? 0));
      console.error(JSON.stringify(sample));
      samples.push(sample);
    }
  } finally {
    child.kill("SIGINT");
    await ended;
    stopListening();
  }
  return samples;
}

const Status = z.object({ environment: z.record(z.string(), z.string()) });

/** The environment variables that give access to the run's cloud; undefined until it runs. */
function accessOf(project: string): Readonly<Record<string, string>> | undefined {
  const path = join(project, "runs", RUN, "status.json");
  if (!existsSync(path)) return undefined;
  const { environment } = parseJson(Status, readFileSync(path), path);
  return environment["MGRPO_TABLE"] === undefined ? undefined : environment;
}

try {
  await main();
} catch (error) {
  if (!isMgrpoError(error)) throw error;
  process.stderr.write(`soak: ${error.message}\n`);
  process.exitCode = 1;
}
