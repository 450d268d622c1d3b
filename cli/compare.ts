/**
 * @file `mgrpo compare`: trains several arms with several seeds at the same number of sampled tokens, and says how they differ and how
 * sure that is: results/<name>/. Started again, it goes on: finished runs are left, broken ones resumed.
 *
 *     each seed: first arm ──what it sampled──> all other arms, and the first arm of the next seed      then tables, summary, curves
 */
import { mkdirSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { MgrpoError } from "../core/errors.ts";
import { openRecipe } from "../recipes/registry.ts";
import { type BandChart, drawBands } from "./compare/bands.ts";
import { heldOutBands, rewardBands } from "./compare/curves.ts";
import { drawMarkdown } from "./compare/markdown.ts";
import { type CompareOptions, type Entry, entriesOf, type PlannedRun, planRun } from "./compare/plan.ts";
import { openProgress } from "./compare/progress.ts";
import { type FinishedRun, readRecord } from "./compare/records.ts";
import { carryOut, refuseOther } from "./compare/runs.ts";
import { type ArmRuns, type Comparison, sampledBy, summarize } from "./compare/summary.ts";
import { evaluationsCsv, questionsCsv, stepsCsv } from "./compare/tables.ts";
import { preflight } from "./local/preflight.ts";
import { checkRunsFolder, writeAtomically } from "./local/run-folder.ts";
import { watchForStop } from "./local/stop.ts";
import { counted } from "./terminal/columns.ts";
import { MGRPO } from "./terminal/name.ts";

const RESULTS = "results";

export async function compare(recipeName: string, options: CompareOptions): Promise<void> {
  const recipe = await openRecipe(recipeName);
  const entries = entriesOf(options);
  const seeds = Array.from({ length: options.seeds }, (_, i) => i + 1);
  const plan = (entry: Entry, seed: number, budget: number | undefined) =>
    planRun({ recipe, recipeName, options }, entry, seed, budget);
  // What cannot work is refused before anything trains: any budget will do for that.
  for (const entry of entries) {
    const { config } = plan(entry, 1, 1);
    const { findings } = await preflight(config, { workers: "here", models: "read", checkStore: checkRunsFolder });
    findings.settle();
  }
  const [first, ...others] = entries;
  if (!first) throw new MgrpoError("config-invalid", "--arms names no arm");

  const folder = resolve(RESULTS, options.name);
  // Before their budgets are known: enough for their names.
  const names = entries.flatMap((entry) => seeds.map((seed) => plan(entry, seed, 1).config.run));
  const lead = (seed: number) => plan(first, seed, options.tokens);
  for (const seed of seeds) refuseOther(lead(seed));

  const planned: PlannedRun[] = [];
  const progress = openProgress(names.length);
  const stop = watchForStop();
  const failures = new Map<string, string>();
  const carry = async (runs: readonly PlannedRun[]) => {
    planned.push(...runs);
    const failed = await carryOut(runs, folder, recipeName, options.jobs, progress, stop.signal);
    for (const [run, fault] of failed) failures.set(run, fault);
  };
  try {
    await carry(seeds.slice(0, 1).map(lead));
    for (const [i, seed] of seeds.entries()) {
      const budget = options.tokens ?? sampledIn(readRecord(folder, lead(seed)));
      const rest = budget === undefined ? [] : others.map((entry) => plan(entry, seed, budget));
      await carry([...rest, ...seeds.slice(i + 1, i + 2).map(lead)]);
    }
  } finally {
    stop.dispose();
    progress.close();
  }
  const arms = entries.map((entry) =>
    armRuns(
      folder,
      planned.filter((one) => one.entry === entry),
      entry,
    ),
  );
  const finished = new Set(arms.flatMap(({ runs }) => runs.map(({ report }) => report.run)));
  const missing = names.filter((name) => !finished.has(name));
  if (finished.size > 0) {
    const about = { name: options.name, recipe: recipeName, command: command(), seeds, missing };
    writeResults(folder, summarize(about, arms), arms, planned[0]?.config.main ?? "main");
  }
  if (stop.signal.aborted) {
    progress.say(`stopped with ${missing.length} of ${names.length} runs to go; the same command goes on`);
    process.exitCode = 130;
    return;
  }
  if (missing.length === 0) return progress.say(`${relative(process.cwd(), folder)}/summary.md`);
  const [[run, fault] = [missing[0], "was not started"]] = failures;
  const more = missing.length > 1 ? `, and ${missing.length - 1} more` : "";
  throw new MgrpoError("run-halted", `run '${run}' is not finished${more}: ${fault}; the same command goes on`);
}

function armRuns(results: string, planned: readonly PlannedRun[], entry: Entry): ArmRuns {
  const budgets = planned.flatMap(({ config }): [string, number][] =>
    config.sampledTokens === null ? [] : [[config.run, config.sampledTokens]],
  );
  return { entry, runs: planned.flatMap((one) => readRecord(results, one) ?? []), budgets: new Map(budgets) };
}

/** Undefined while the run is not finished. */
function sampledIn(finished: FinishedRun | undefined): number | undefined {
  return finished && sampledBy(finished).at(-1);
}

function writeResults(folder: string, comparison: Comparison, all: readonly ArmRuns[], main: string): void {
  mkdirSync(folder, { recursive: true });
  const arms = all.filter(({ runs }) => runs.length > 0);
  const who = `${comparison.recipe}, ${counted(comparison.seeds.length, "seed")}`;
  const { suite = "", temperature = 0 } = comparison.arms[0]?.heldOut[0] ?? {};
  const heldOut: BandChart = {
    title: "Held-out questions answered right",
    note: `${who}; ${suite}, temperature ${temperature}; bands: 95 % intervals over seeds and questions`,
    xName: "thousand tokens sampled in training",
    bands: heldOutBands(arms),
    marked: true,
  };
  const reward: BandChart = {
    title: "Reward of the main agent",
    note: `${who}; smoothed; bands: from the least seed to the greatest`,
    xName: "step",
    bands: rewardBands(arms, main),
    marked: false,
  };
  const files = {
    "steps.csv": stepsCsv(arms),
    "evaluations.csv": evaluationsCsv(arms),
    "questions.csv": questionsCsv(arms),
    "held-out.svg": drawBands(heldOut),
    "reward.svg": drawBands(reward),
    "summary.json": `${JSON.stringify(comparison, null, 2)}\n`,
    "summary.md": drawMarkdown(comparison, [
      [heldOut.title, "held-out.svg"],
      [reward.title, "reward.svg"],
    ]),
  };
  for (const [name, content] of Object.entries(files)) writeAtomically(join(folder, name), content);
}

/** The command that was given, as it can be given again. */
function command(): string {
  const words = process.argv.slice(2).map((word) => (/^[\w./=,-]+$/.test(word) ? word : `'${word}'`));
  return `${MGRPO} ${words.join(" ")}`;
}
