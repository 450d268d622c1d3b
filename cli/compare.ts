/**
 * @file `mgrpo compare`: trains several arms with several seeds on the same number of sampled tokens, and writes their differences, with
 * confidence intervals, to results/<name>/. When rerun, it keeps finished runs and resumes the others.
 *
 *     each seed: first arm ──its sampled tokens──> all other arms, and the first arm of the next seed      then tables, summary, charts
 *     --tokens:  all runs, `--jobs` at a time
 */
import { join, relative, resolve } from "node:path";
import { questionsOf } from "../adapters/benchmarks/load.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { canonicalJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Recipe } from "../core/recipe.ts";
import { openNamedRecipe } from "../recipes/registry.ts";
import { type BandChart, drawBands } from "./compare/bands.ts";
import { curveSuite, heldOutBands, rewardBands } from "./compare/curves.ts";
import { drawMarkdown } from "./compare/markdown.ts";
import { refuseOtherSuites } from "./compare/measure.ts";
import { type CompareOptions, type Entry, entriesOf, planRun, unreadSettings } from "./compare/plan.ts";
import { type ComparisonDisplay, openProgress } from "./compare/progress.ts";
import { hasStarted, identifyBases, identifyQuestions, provenanceOf } from "./compare/provenance.ts";
import { type FinishedRun, hasRecord, readRecord, type TraceableRun } from "./compare/records.ts";
import { refuseMismatchedRun, startedModels, trainRuns } from "./compare/runs.ts";
import { checkStart, describeQuestions, describeStart, startWithSeed } from "./compare/start.ts";
import { type ArmRuns, type Comparison, cumulativeTokens, summarize } from "./compare/summary.ts";
import { evaluationsCsv, questionsCsv, stepsCsv } from "./compare/tables.ts";
import { Findings } from "./local/findings.ts";
import { pinModels } from "./local/hub-models.ts";
import { makeMissingModels } from "./local/missing-models.ts";
import { ignoredSetting, preflight } from "./local/preflight.ts";
import { checkRunsFolder, runFolder } from "./local/run-folder.ts";
import { watchForStop } from "./local/stop.ts";
import { writeAtomically } from "./local/written-files.ts";
import { counted } from "./terminal/columns.ts";
import { MGRPO, quoted } from "./terminal/name.ts";
import { makeFolder, makeWritable } from "./writable-folder.ts";

const RESULTS = "results";

/** What a comparison consists of. */
interface Plan {
  readonly recipe: string;
  readonly options: CompareOptions;
  readonly seeds: readonly number[];
  readonly first: Entry;
  readonly others: readonly Entry[];
  /** Names of all runs. */
  readonly names: readonly string[];
  /** Folder of the results. */
  readonly folder: string;
  /** Name of the main agent. */
  readonly main: string;
  runOf(entry: Entry, seed: number, budget: number | undefined): TraceableRun;
}

export async function compare(recipeName: string, options: CompareOptions): Promise<void> {
  const plan = await planComparison(recipeName, options);
  for (const seed of plan.seeds) refuseMismatchedRun(leadRun(plan, seed), options.mixed);
  makeWritable(plan.folder, "run mgrpo in a folder that you can write to");
  const progress = openProgress(plan.names.length);
  const stop = watchForStop();
  const { planned, failures } = await trainAll(plan, progress, stop.signal).finally(() => {
    stop.dispose();
    progress.close();
  });
  const missing = writeResults(plan, planned);
  if (missing.length === 0) return progress.print(`${relative(process.cwd(), plan.folder)}/summary.md`);
  if (stop.signal.aborted) {
    progress.print(`stopped with ${missing.length} of ${plan.names.length} runs left; run the same command to resume`);
    process.exitCode = 130;
    return;
  }
  throw unfinishedError(missing, failures);
}

/** The error of an unfinished comparison. `failures`: run -> why it failed. */
export function unfinishedError(missing: readonly string[], failures: ReadonlyMap<string, string>): MgrpoError {
  const [failure] = failures;
  const [run, fault] = failure ?? [missing[0], "its process exited without finishing it"];
  const others = missing.length > 1 ? `; ${counted(missing.length - 1, "other run")} unfinished` : "";
  // A fault may name a remedy, such as a larger budget.
  const next = failure ? "then run the same command to continue" : "run the same command to resume";
  return new MgrpoError("run-halted", `run '${run}' failed: ${fault}${others}; ${next}`);
}

/** Throws before training starts if an entry cannot work. Token budgets are not known yet, and do not matter here. */
async function planComparison(recipeName: string, options: CompareOptions): Promise<Plan> {
  const recipe = await openNamedRecipe(recipeName);
  const entries = entriesOf(options);
  const [first, ...others] = entries;
  if (!first) throw new MgrpoError("config-invalid", "--arms names no arm");
  const { seeds } = options;
  for (const seed of seeds) checkStart(recipe, options.arms, startWithSeed(options, seed));
  const planOf = (entry: Entry, seed: number, budget: number | undefined) =>
    planRun({ recipe, recipeName, options }, entry, seed, budget);
  const runs = entries.flatMap((entry) => seeds.map((seed) => planOf(entry, seed, 1).config));
  const names = runs.map(({ run }) => run);
  const folder = resolve(RESULTS, options.name);
  // A comparison that has begun may keep settings that no run reads.
  if (!names.some((run) => hasStarted(runFolder(run)) || hasRecord(folder, run)))
    refuseUnread(runs.filter(({ seed }) => seed === seeds[0]));
  const questions = await identifyAll(recipe, runs);
  const models = await modelsOf(recipeName, recipe, runs);
  const runOf: Plan["runOf"] = (entry, seed, budget) => {
    const planned = planOf(entry, seed, budget);
    const found = models.get(planned.config.run);
    const asked = questions.get(planned.config.run);
    if (!found || asked === undefined) throw new RangeError(`'${planned.config.run}' is not a run of this comparison`);
    const config = withModels(planned.config, found.models);
    return { ...planned, config, by: provenanceOf(config, { questions: asked, bases: found.bases }) };
  };
  const { main } = planOf(first, seeds[0] ?? 1, 1).config;
  return { recipe: recipeName, options, seeds, first, others, names, folder, main, runOf };
}

function refuseUnread(configs: readonly RunConfig[]): void {
  const findings = new Findings();
  for (const fault of unreadSettings(configs)) findings.refuse(ignoredSetting(fault));
  findings.reportAndThrow();
}

/** Run -> what identifies its questions. Those of a benchmark may depend on the agents' tools, but must be the same for all arms. */
async function identifyAll(recipe: Recipe, runs: readonly RunConfig[]): Promise<Map<string, string>> {
  const known = new Map<string, string>();
  const identified = new Map<string, string>();
  const asked = new Map<string, string>();
  for (const config of runs) {
    const { run, seed, questions = null, evaluation, agents } = config;
    const sources = canonicalJson([
      seed,
      questions,
      evaluation.suites,
      Object.values(agents).map(({ tools }) => tools),
    ]);
    let found = known.get(sources);
    if (found === undefined) {
      const set = await questionsOf(recipe, config);
      refuseOtherSuites(set, asked);
      found = identifyQuestions(set);
      known.set(sources, found);
    }
    identified.set(run, found);
  }
  return identified;
}

/** Run -> its models. Makes those that are missing. Runs that differ in nothing but their seed are checked once. */
async function modelsOf(
  recipeName: string,
  recipe: Recipe,
  runs: readonly RunConfig[],
): Promise<Map<string, RunModels>> {
  const known = new Map<string, RunModels>();
  const found = new Map<string, RunModels>();
  const findings = new Findings();
  try {
    for (const config of runs) {
      const key = canonicalJson({ ...config, run: "", seed: 0 });
      let models = known.get(key);
      if (models === undefined) {
        await makeMissingModels(recipeName, recipe, config, { begins: () => false, checkStore: () => {} });
        models = await preflightModels(config, runs, findings);
        known.set(key, models);
      }
      found.set(config.run, models);
    }
  } finally {
    findings.reportAndThrow();
  }
  return found;
}

type RunModels = Awaited<ReturnType<typeof preflightModels>>;

/** Checks a config and reads its base models. Returns their names, with the commit of a hub model, and their hashes. Throws at an error. */
async function preflightModels(given: RunConfig, runs: readonly RunConfig[], findings: Findings) {
  const config = await pinModels(given, startedModels(runs, given));
  const site = { workers: "here", models: "read", begins: () => false, checkStore: checkRunsFolder } as const;
  const { bases } = await preflight(config, site, findings);
  findings.throwErrors();
  const models = new Map(Object.entries(config.agents).map(([name, { model }]) => [name, model]));
  return { models, bases: await identifyBases(bases) };
}

function withModels(config: RunConfig, models: ReadonlyMap<string, string>): RunConfig {
  const agents = Object.entries(config.agents).map(([name, agent]) => [
    name,
    { ...agent, model: models.get(name) ?? agent.model },
  ]);
  return { ...config, agents: Object.fromEntries(agents) };
}

/** The run of the first arm. The tokens that it samples are the budget of its seed's other runs, unless `--tokens` gives one for all. */
const leadRun = ({ runOf, first, options }: Plan, seed: number): TraceableRun => runOf(first, seed, options.tokens);

/** Trains until all runs are finished, failed or stopped. Resolves with the runs that could be planned, and the failures by run. */
async function trainAll(
  plan: Plan,
  progress: ComparisonDisplay,
  signal: AbortSignal,
): Promise<{ planned: TraceableRun[]; failures: Map<string, string> }> {
  const { recipe, options, seeds, others, folder } = plan;
  const planned: TraceableRun[] = [];
  const failures = new Map<string, string>();
  const train = async (runs: readonly TraceableRun[]) => {
    planned.push(...runs);
    const failed = await trainRuns(runs, folder, recipe, options, progress, signal);
    for (const [run, fault] of failed) failures.set(run, fault);
  };
  if (options.tokens !== undefined) {
    const entries = [plan.first, ...others];
    await train(seeds.flatMap((seed) => entries.map((entry) => plan.runOf(entry, seed, options.tokens))));
    return { planned, failures };
  }
  const leadRuns = seeds.map((seed) => leadRun(plan, seed));
  await train(leadRuns.slice(0, 1));
  for (const [i, lead] of leadRuns.entries()) {
    const budget = sampledIn(readRecord(folder, lead, options.mixed));
    const rest = budget === undefined ? [] : others.map((entry) => plan.runOf(entry, lead.config.seed, budget));
    await train([...rest, ...leadRuns.slice(i + 1, i + 2)]);
  }
  return { planned, failures };
}

/** Undefined unless the run is finished. */
function sampledIn(finished: FinishedRun | undefined): number | undefined {
  return finished && cumulativeTokens(finished).at(-1);
}

/** Writes the results of the finished runs, if there are any. Returns the names of the unfinished ones. */
function writeResults(
  { recipe, options, seeds, first, others, names, folder, main }: Plan,
  planned: TraceableRun[],
): string[] {
  const arms = [first, ...others].map((entry) => {
    const ofArm = planned.filter((one) => one.entry === entry);
    return armRuns(entry, ofArm, (one) => readRecord(folder, one, options.mixed));
  });
  const finished = new Set(arms.flatMap(({ runs }) => runs.map(({ report }) => report.run)));
  const missing = names.filter((name) => !finished.has(name));
  if (finished.size === 0) return missing;
  const about = {
    name: options.name,
    recipe,
    command: `${MGRPO} ${process.argv.slice(2).map(quoted).join(" ")}`,
    start: describeStart(options.arms, options),
    questions: describeQuestions(options),
    seeds: [...seeds],
    missing,
  };
  const files = resultFiles(summarize(about, arms), arms, main);
  makeFolder(folder);
  for (const [name, content] of Object.entries(files)) writeAtomically(join(folder, name), content);
  return missing;
}

function armRuns(
  entry: Entry,
  planned: readonly TraceableRun[],
  read: (one: TraceableRun) => FinishedRun | undefined,
): ArmRuns {
  const budgets = planned.flatMap(({ config }): [string, number][] =>
    config.sampledTokens === null ? [] : [[config.run, config.sampledTokens]],
  );
  return { entry, runs: planned.flatMap((one) => read(one) ?? []), budgets: new Map(budgets) };
}

/** File -> content. Without held-out evaluations there is no chart of them. */
export function resultFiles(comparison: Comparison, all: readonly ArmRuns[], main: string): Record<string, string> {
  const arms = all.filter(({ runs }) => runs.length > 0);
  const runs = `${comparison.recipe}, ${counted(comparison.seeds.length, "seed")}`;
  const suite = curveSuite(arms[0]?.runs ?? []);
  const heldOut: BandChart | undefined = suite && {
    title: "Questions answered correctly",
    subtitle: `${runs}; ${suite.suite}, temperature ${suite.temperature}; bands: 95% intervals over seeds and questions`,
    xName: "thousand tokens sampled in training",
    xIsCount: false,
    bands: heldOutBands(arms),
    marked: true,
  };
  const reward: BandChart = {
    title: "Reward of the main agent",
    subtitle: `${runs}; smoothed; bands: minimum to maximum over seeds`,
    xName: "step",
    xIsCount: true,
    bands: rewardBands(arms, main),
    marked: false,
  };
  const charts = { ...(heldOut && { "held-out.svg": heldOut }), "reward.svg": reward };
  const titles = Object.entries(charts).map(([file, { title }]) => [title, file] as const);
  return {
    "steps.csv": stepsCsv(arms),
    "evaluations.csv": evaluationsCsv(arms),
    "questions.csv": questionsCsv(arms),
    ...Object.fromEntries(Object.entries(charts).map(([file, chart]) => [file, drawBands(chart)])),
    "summary.json": `${JSON.stringify(comparison, null, 2)}\n`,
    "summary.md": drawMarkdown(comparison, titles),
  };
}
