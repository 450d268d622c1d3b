/**
 * @file `npm run soak -- --minutes 60`: trains the atlas team for that long, started as a user would, and looks at it once a minute: the memory
 * and open files of each process, the files on the disk, the duration of a step, and the time that `mgrpo show` takes. Prints how each
 * changed from the first quarter to the last, and draws them. Linux only.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as z from "zod";
import { builtModule } from "../../built-module.ts";
import { parse } from "../../core/contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import { requireProc } from "../process-tree.ts";
import { drawSeries } from "./chart.ts";
import { type SoakSample, takeSample } from "./sample.ts";
import { seriesOf, summaryOf, toCsv } from "./series.ts";

const RUN = "soak";
const EVERY_SECONDS = 60;
/** More steps than any soak trains. */
const STEPS = 1_000_000;
const SETTINGS = [
  'evaluation.suites=[{"name":"held-out","questions":32}]',
  "evaluation.every=50",
  // The same levels throughout: harder ones would take longer.
  'curriculum=[{"from":0,"levels":[1,2]}]',
].flatMap((setting) => ["--set", setting]);

const Arguments = z.strictObject({ minutes: z.coerce.number().min(4), to: z.string().min(1) });

async function main(): Promise<void> {
  requireProc("npm run soak");
  const options = {
    minutes: { type: "string", default: "60" },
    to: { type: "string", default: "results/soak" },
  } as const;
  const { minutes, to } = parse(Arguments, parseArgs({ options }).values, "soak", "config-invalid");
  const folder = resolve(to);
  const project = mkdtempSync(join(tmpdir(), "mgrpo-soak-"));
  try {
    const samples = await soak(project, minutes);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "samples.csv"), toCsv(samples));
    for (const [name, chart] of Object.entries(seriesOf(samples)))
      writeFileSync(join(folder, `${name}.svg`), drawSeries(chart));
    for (const line of summaryOf(samples)) console.log(line);
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

async function soak(project: string, minutes: number): Promise<SoakSample[]> {
  const mgrpo = fileURLToPath(builtModule("cli/mgrpo"));
  const train = [mgrpo, "train", "atlas", "--run", RUN, "--steps", String(STEPS), ...SETTINGS];
  const child = spawn(process.execPath, train, { cwd: project, stdio: ["ignore", "ignore", "inherit"] });
  const ended = once(child, "exit");
  const begun = performance.now();
  const samples: SoakSample[] = [];
  try {
    while (performance.now() - begun < minutes * 60_000) {
      const isOver = await Promise.race([pause(EVERY_SECONDS * 1000, false), ended.then(() => true)]);
      if (isOver || child.pid === undefined)
        throw new MgrpoError("run-halted", `the run ended after ${samples.length} samples: its last lines say why`);
      const sample = await takeSample({ pid: child.pid, project, run: RUN, mgrpo, begun }, samples.at(-1)?.steps ?? 0);
      console.error(JSON.stringify(sample));
      samples.push(sample);
    }
  } finally {
    child.kill("SIGINT");
    await ended;
  }
  return samples;
}

try {
  await main();
} catch (error) {
  if (!isMgrpoError(error)) throw error;
  process.stderr.write(`soak: ${error.message}\n`);
  process.exitCode = 1;
}
