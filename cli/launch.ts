/**
 * @file `mgrpo launch`: starts a run on a stage of `sst deploy`, or in the store that the environment names. If a
 * deployment owns the store, its fleets start the run's workers. The user starts workers that no fleet provides.
 * Launching an existing run (`--run`) again resumes it if it is halted, raises its budget if the options do, and
 * requeues evaluations that lost answers.
 */
import { z } from "zod";
import { openAwsStore } from "../adapters/aws/store.ts";
import { RunConfig } from "../core/contracts/config.ts";
import type { Deployment } from "../core/contracts/deployment.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import { canonicalJson, parseJson } from "../core/contracts/parse.ts";
import type { QuestionSet } from "../core/contracts/question.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { Store } from "../core/ports.ts";
import { differences } from "../core/training/differences.ts";
import { policiesOf, resolveConfig } from "../core/training/resolve-config.ts";
import { type RaisedBudget, raisesBudget } from "../core/training/run-budget.ts";
import { composeFunctions } from "../functions/compose.ts";
import { recordBytes } from "../gpu-workers/identity.ts";
import { openNamedRecipe } from "../recipes/registry.ts";
import { openRewards } from "../recipes/rewards.ts";
import {
  fleetPolicies,
  manualWorkers,
  namesOfStage,
  readDeployment,
  refuseOtherBucket,
  refuseOtherRelease,
  refuseTooManyWorkers,
  refuseUndeployedRecipe,
  refuseUnreachableServers,
} from "./deployment.ts";
import { refuseKeylessJudge, refuseKeylessWorkers } from "./deployment-keys.ts";
import type { Findings } from "./local/findings.ts";
import { readWait } from "./local/follow.ts";
import { pinModels, StartedModels } from "./local/hub-models.ts";
import { preflight } from "./local/preflight.ts";
import { readRun } from "./local/read-records.ts";
import { runNameOf } from "./local/run-name.ts";
import { startOrResume } from "./local/start-or-resume.ts";
import { evaluatorsOf, type WorkerSpec, workersOf } from "./local/workers.ts";
import { checkRunQuestions, readQuestions } from "./questions.ts";
import { type ResumeOptions, raisedBudgetOf } from "./resume.ts";
import { storeNames } from "./store-names.ts";
import { MGRPO, quoted } from "./terminal/name.ts";
import { settingsOf, type TrainOptions } from "./train.ts";

export interface LaunchOptions extends TrainOptions, ResumeOptions {
  readonly stage?: string;
}

export async function launch(recipeName: string, options: LaunchOptions): Promise<void> {
  const { stage } = options;
  const raised = raisedBudgetOf(options);
  const names = stage === undefined ? storeNames("launch") : await namesOfStage(stage);
  const recipe = await openNamedRecipe(recipeName);
  const { arm = "mgrpo", seed = 1 } = options;
  const store = openAwsStore(names);
  try {
    const freeName = (isTaken: (name: string) => Promise<boolean>) => firstFree(isTaken, recipe.name, arm, seed);
    const run = options.run ?? (await freeName((name) => isStarted(store, name)));
    const deployment = await readDeployment(store.table);
    if (deployment) refuseOtherBucket(deployment, names);
    const own = settingsOf(options);
    // Before the config is checked: `optimizer=server` needs the fleet's policy.
    const policies = deployment ? fleetPolicies(policiesOf(recipe, arm, own), deployment, own) : [];
    const chosen = resolveConfig(recipe, { run, seed, arm, set: [...policies, ...own], recipe: recipeName });
    const key = objectKeys.config(run);
    // A run without a name is a new one: if this name is taken meanwhile, it gets another.
    const stored = options.run === undefined ? undefined : await store.objects.get(key);
    const planned = await pinModels(chosen, stored && parseJson(StartedModels, stored, `${key} in the store`));
    const { findings, bases } = await preflight(planned, {
      workers: "elsewhere",
      models: "read",
      begins: () => stored === undefined,
      async checkStore(found) {
        if (deployment) await checkDeployment(deployment, planned, recipeName, found);
        refuseOther(planned, stored, raised);
      },
    });
    findings.reportAndThrow();
    const questions = await readQuestions(recipe, planned);
    const checked = () => {
      checkRunQuestions(planned, questions);
      return questions;
    };
    const cloud = { store, functions: composeFunctions(store) };
    const start = (one: RunConfig) => startOrResume(cloud, one, () => bases, checked, raised);
    const config =
      options.run === undefined ? await startUnnamed(store, { planned, questions }, freeName, start) : planned;
    if (options.run !== undefined) await start(config);
    const workers = await neededWorkers(store, config);
    const manual = deployment ? manualWorkers(workers, deployment) : workers;
    if (workers.length === 0) printUnchanged(config.run);
    else print(config, names, manual, workers.length > manual.length);
  } finally {
    store.close();
  }
}

/** Finds what keeps the deployment from working on the run. */
async function checkDeployment(
  deployment: Deployment,
  config: RunConfig,
  recipe: string,
  findings: Findings,
): Promise<void> {
  await findings.attempt(() => refuseOtherRelease(deployment));
  await findings.attempt(() => refuseUndeployedRecipe(recipe));
  await findings.attempt(() => refuseUnreachableServers(config, deployment));
  await findings.attempt(() => refuseTooManyWorkers(config, deployment));
  await findings.attempt(() => refuseKeylessWorkers(config, deployment));
  if (!config.judge) return;
  await findings.attempt(async () => {
    const { judge } = await openRewards(config, process.env);
    refuseKeylessJudge(config, deployment, judge !== undefined);
  });
}

async function firstFree(
  isTaken: (name: string) => Promise<boolean>,
  recipe: string,
  arm: string,
  seed: number,
): Promise<string> {
  for (let n = 1; ; n++) {
    const name = runNameOf(recipe, arm, seed, n);
    if (!(await isTaken(name))) return name;
  }
}

const isStarted = async ({ table }: Store, run: string) => (await table.get(tableKeys.run(run))) !== undefined;

/**
 * Starts a run that the user did not name. If a launch with other settings or questions takes a name meanwhile, the next free one is used; equal
 * launches at the same time share a run. Returns the run's config.
 */
async function startUnnamed(
  store: Store,
  { planned, questions }: { planned: RunConfig; questions: QuestionSet },
  freeName: (isTaken: (name: string) => Promise<boolean>) => Promise<string>,
  start: (config: RunConfig) => Promise<void>,
): Promise<RunConfig> {
  const isOther = async (run: string) => {
    const differs = async (key: string, own: Uint8Array) => {
      const stored = await store.objects.get(key);
      return stored !== undefined && !Buffer.from(own).equals(stored);
    };
    // A launch stores the questions first.
    if (await differs(objectKeys.questions(run), recordBytes(questions))) return true;
    return differs(objectKeys.config(run), new TextEncoder().encode(canonicalJson({ ...planned, run })));
  };
  for (;;) {
    const run = await freeName(async (name) => (await isStarted(store, name)) || (await isOther(name)));
    const config = { ...planned, run };
    try {
      await start(config);
      if (!(await isOther(run))) return config;
    } catch (error) {
      if (!isMgrpoError(error, "config-invalid") || !(await isOther(run))) throw await namingStarted(store, run, error);
    }
  }
}

/** If the run has started all the same, its error names it: the same launch again, without a name, would start a second run. */
async function namingStarted(store: Store, run: string, error: unknown): Promise<unknown> {
  if (!isMgrpoError(error) || !(await isStarted(store, run).catch(() => false))) return error;
  const { code, message, retryable } = error;
  const advice = `run '${run}' is in the store: repeat this launch with --run ${run}`;
  return new MgrpoError(code, `${message}; ${advice}`, { cause: error, retryable });
}

/** Refuses a config other than the `stored` one, and a raised budget of a run that is not stored. */
function refuseOther(config: RunConfig, stored: Uint8Array | undefined, raised: RaisedBudget): void {
  if (!stored && raisesBudget(raised)) {
    throw new MgrpoError(
      "config-invalid",
      `run '${config.run}' is not in the store yet: set its budget instead of raising it`,
    );
  }
  if (!stored) return;
  const recorded = parseJson(z.unknown(), stored, "the stored config");
  // Workers use the default of a setting that an older release did not record. Settings of a newer release may be
  // unknown here.
  const { data = recorded } = RunConfig.safeParse(recorded);
  const found = differences(JSON.parse(canonicalJson(config)), JSON.parse(canonicalJson(data)));
  if (found.length === 0) return;
  throw new MgrpoError(
    "config-invalid",
    `run '${config.run}' is in the store with another config: ${found.join("; ")}; to resume it, repeat the settings of its first launch, and raise its budget with --budget-…; for a new run, give another name with --run`,
  );
}

/** Those that have work left: none of a run that is finished and evaluated, and only evaluators of a finished one. */
async function neededWorkers(store: Store, config: RunConfig): Promise<WorkerSpec[]> {
  const { status } = await readRun(store, config.run);
  if (status !== "finished") return workersOf(config);
  return (await readWait(store, config)) === undefined ? [] : evaluatorsOf(config);
}

function printUnchanged(run: string): void {
  const status = "finished";
  if (!process.stdout.isTTY) console.log(JSON.stringify({ kind: "unchanged", run, status, reason: "" }));
  else
    console.log(`run '${run}' is finished and evaluated: \`${MGRPO} export ${quoted(run)}\` writes its weights here`);
}

/** `manual`: the workers that the user has to start. `fleets`: whether fleets start others. */
function print(
  { run }: RunConfig,
  { table, bucket }: { table: string; bucket: string },
  manual: readonly WorkerSpec[],
  fleets: boolean,
): void {
  const workers = manual.map(({ arguments: flags }) => `${MGRPO} worker ${flags.map(quoted).join(" ")}`);
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify({ kind: "launched", run, table, bucket, fleets, workers }));
    return;
  }
  console.log(`\n  run '${run}' is in table '${table}' and bucket '${bucket}'.`);
  if (fleets) {
    console.log(
      "\n  Workers of the fleets start by themselves within about ten minutes, and stop when the run is over. Follow it with:\n",
      `\n    export MGRPO_TABLE=${table} MGRPO_BUCKET=${bucket}\n    ${MGRPO} show ${run}\n`,
    );
  }
  if (workers.length === 0) return;
  console.log(`  ${fleets ? "Start the workers that no fleet provides" : "Start its workers"}, on any machine:\n`);
  for (const worker of workers) console.log(`    ${worker}`);
  console.log(
    `\n  Each needs this environment with MGRPO_TABLE=${table} MGRPO_BUCKET=${bucket}, and the same MGRPO_WORKER_TOKEN; a sub-agent's also needs --host, with an address that the others can reach.`,
    `\n  If neither \`${MGRPO} cloud serve\` nor Lambda runs the functions, also start: ${MGRPO} dispatch\n`,
  );
}
