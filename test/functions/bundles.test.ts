/**
 * @file Each Lambda handler as it is deployed: bundled, small, and called from its bundle with AWS events, against the local cloud. Its
 * requests are compared with its role's permissions.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { ClientRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type Bundle, bundleHandlers, handlerNames } from "../../bench/bundles/bundle-handlers.ts";
import { builtModule } from "../../built-module.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { EvaluationResult } from "../../core/contracts/messages.ts";
import { GroupRecord, JobRecord, RunRecord, StepRecord } from "../../core/contracts/records.ts";
import type { LambdaHandler } from "../../functions/handler.ts";
import { controlPlane, serveControlPlane } from "../fakes/control-plane.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { bytes, playRollout, prepare, publish, teamConfig } from "../fakes/scripted-team.ts";
import { objectCreated, scheduled, sqsBatch } from "../fixtures/aws-events.ts";
import { FUNCTION_ACTIONS } from "../fixtures/function-actions.ts";

const MEGABYTE = 1e6;
/** Seconds; longer than a judge's pause after its first failure. */
const PAUSE_AFTER_FAILURE = 1.1;
const NAMES = handlerNames();

const folder = mkdtempSync(join(tmpdir(), "bundles-"));
const outageFile = join(folder, "judge-is-out");
/** The judge fails for the question that the file names, while the file exists. */
const REWARDS = `import { existsSync, readFileSync } from "node:fs";
const file = ${JSON.stringify(outageFile)};
const outage = () => Object.assign(new Error("out"), { [Symbol.for("mgrpo.error")]: true, code: "endpoint-unavailable", retryable: true });
const judge = ({ id }) => { if (existsSync(file) && readFileSync(file, "utf8") === id) throw outage(); };
export const rewards = {
  judge: "paid",
  correct: (question, { answer }) => { judge(question); return answer === question.answer ? 1 : 0; },
  expert: () => 0.5,
};`;

let bundles: ReadonlyMap<string, Bundle>;
const handlers = new Map<string, LambdaHandler>();
const actions = new Map<string, Set<string>>(NAMES.map((name) => [name, new Set()]));
let calling: string | undefined;
let store: Awaited<ReturnType<typeof openLocalStore>>;
const plane = controlPlane(["g-main", "g-searcher", "g-eval"]);
const planeServer = await serveControlPlane(plane);
const deployment: Deployment = {
  ...{ release: "1", bucket: "mgrpo", clockRule: "clock" },
  fleets: [
    { name: "main", agent: "main", roles: ["rollout", "train"], group: "g-main", max: 4, release: "1" },
    { name: "searcher", agent: "searcher", roles: ["rollout", "train"], group: "g-searcher", max: 4, release: "1" },
    { name: "eval", agent: "*", roles: ["eval"], group: "g-eval", max: 2, release: "1" },
  ],
};

beforeAll(async () => {
  // The test runner does not transform modules under node_modules.
  bundles = await bundleHandlers(NAMES, join(folder, "node_modules"));
  writeFileSync(join(folder, "rewards.mjs"), REWARDS);
  store = await openLocalStore();
  Object.assign(process.env, planeServer.environment);
  await store.table.insert(tableKeys.deployment, { deployment: JSON.stringify(deployment) });
  subscribe("http.client.request.start", recordAction);
  for (const [name, { path }] of bundles) {
    const module = (await import(/* @vite-ignore */ pathToFileURL(path).href)) as { handler: LambdaHandler };
    handlers.set(name, module.handler);
  }
}, 240_000);

afterAll(async () => {
  unsubscribe("http.client.request.start", recordAction);
  await store.close();
  await planeServer.close();
  for (const left of [folder, store.directory]) rmSync(left, { recursive: true, force: true });
});

/** Records a request to the store as the IAM action that it needs. */
function recordAction(message: unknown) {
  const { request } = message as { request: ClientRequest };
  if (calling === undefined || planeServer.endpoint.endsWith(String(request.getHeader("host")))) return;
  const target = /^DynamoDB_\d+\.(\w+)$/.exec(String(request.getHeader("x-amz-target") ?? ""))?.[1];
  const s3 = { GET: "GetObject", HEAD: "GetObject", PUT: "PutObject", POST: "DeleteObject" }[request.method];
  actions.get(calling)?.add(target ? `dynamodb:${target}` : `s3:${s3}`);
  if (request.hasHeader("x-amz-tagging")) actions.get(calling)?.add("s3:PutObjectTagging");
}

/** One invocation at a time, so that every request can be attributed. */
async function invoke(name: string, event: unknown) {
  const handler = handlers.get(name);
  if (!handler) throw new Error(`no handler ${name}`);
  calling = name;
  return handler(event).finally(() => {
    calling = undefined;
    for (const action of planeServer.asked.splice(0)) actions.get(name)?.add(action);
  });
}

test("every handler has a known role, and npm run bench finds all of them", async () => {
  expect(NAMES).toEqual(Object.keys(FUNCTION_ACTIONS).sort());
  const module = builtModule("bench/bundles/bundle-handlers").href;
  expect(((await import(/* @vite-ignore */ module)) as { handlerNames: typeof handlerNames }).handlerNames()).toEqual(
    NAMES,
  );
});

test.each(NAMES)("%s: its bundle is at most 1.6 MB, without engine, workers, country data or dynalite", (name) => {
  const bundle = bundles.get(name);
  expect(bundle?.bytes).toBeLessThanOrEqual(1.6 * MEGABYTE);
  const inputs = bundle?.inputs ?? [];
  expect(inputs.some((input) => input.includes("@aws-sdk/client-dynamodb"))).toBe(true);
  const foreign = /onnxruntime|tensorflow|world-countries|dynalite|^(engine|gpu-workers)\//;
  expect(inputs.filter((input) => foreign.test(input))).toEqual([]);
});

test("a run of one step completes with every function called from its bundle, and only the expected failures are logged", async () => {
  const lines: string[] = [];
  const stderr = vi.spyOn(process.stderr, "write").mockImplementation((line) => {
    lines.push(String(line));
    return true;
  });
  const config = teamConfig({ run: "bundled", recipe: folder, steps: 1, questionsPerStep: 3 });
  const step = await startRun(config);
  const failed = await scoreOutcomes(config, step);
  await publishVersions(config, step);
  await evaluateTeam(config);
  stderr.mockRestore();
  const logged = lines.map((line) => JSON.parse(line)).map(({ function: name, code }) => `${name} ${code}`);
  const expected = [
    "event-malformed",
    "event-malformed",
    "event-malformed",
    "not-found",
    ...failed.map(() => "judge-failed"),
  ];
  expect(logged.sort()).toEqual(expected.map((code) => `score-rollout ${code}`).sort());
});

const readStep = async (run: string) => StepRecord.parse(await store.table.get(tableKeys.step(run, 0)));

/** Starts the run directly, as the command line does, and twice: the second call changes nothing. */
async function startRun(config: RunConfig): Promise<StepRecord> {
  const request = await prepare(store.objects, config);
  for (const _ of [1, 2]) expect(await invoke("start-run", request)).toEqual({ batchItemFailures: [] });
  const step = await readStep(config.run);
  expect(step.state).toBe("open");
  return step;
}

/**
 * Sends a batch with duplicate, reordered, malformed and foreign events, one whose outcome is missing, and some whose
 * judge fails. Sends those again once the judge answers, and the step becomes ready. Returns the ids of the messages whose judge failed.
 */
async function scoreOutcomes(config: RunConfig, step: StepRecord): Promise<string[]> {
  const { run } = config;
  const outcomes: Record<string, unknown> = {};
  for (const [g] of step.groups.entries())
    for (let k = 0; k < config.rolloutsPerQuestion; k++)
      outcomes[`${step.groups[g]}-${k}`] = objectCreated(await playRollout(store.objects, config, step, g, k));
  const batch = {
    ...Object.fromEntries(Object.entries(outcomes).reverse()),
    twice: Object.values(outcomes)[0],
    "not-json": "{",
    "not-an-event": { hello: "world" },
    "nobody's": objectCreated(`runs/${run}/evaluations/j-1/rollouts/0/0.json`),
    missing: objectCreated(`runs/${run}/outcomes/000007/0/0.json`),
  };
  const [, unjudged = ""] = step.groups;
  writeFileSync(outageFile, unjudged);
  const { batchItemFailures } = await invoke("score-rollout", sqsBatch("ScoreRolloutQueue", batch));
  const failed = batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  expect(failed.sort()).toEqual([0, 1, 2].map((k) => `${unjudged}-${k}`));
  expect((await readStep(run)).state).toBe("open");
  await repairByTick();
  // The scheduled tick redelivers outcomes without a score, and asks no judge itself.
  expect(plane.redelivered.sort()).toEqual(
    [0, 1, 2].map((rollout) => objectKeys.outcome({ run, phase: "train", step: 0, group: 1, rollout })),
  );
  rmSync(outageFile);
  await store.clock.sleep(PAUSE_AFTER_FAILURE);
  const again = Object.fromEntries(failed.map((id) => [id, outcomes[id]]));
  expect(await invoke("score-rollout", sqsBatch("ScoreRolloutQueue", again))).toEqual({ batchItemFailures: [] });
  expect((await readStep(run)).state).toBe("ready");
  for (const [g] of step.groups.entries())
    expect(GroupRecord.parse(await store.table.get(tableKeys.group(run, 0, g))).state).toBe("finalized");
  return failed;
}

/** The scheduled tick repairs what the events left undone, and its metrics say that the two agents have no workers. */
async function repairByTick(): Promise<void> {
  const stdout = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  await expect(invoke("tick", scheduled)).resolves.toEqual({ batchItemFailures: [] });
  const logged = stdout.mock.calls.map(([line]) => JSON.parse(String(line)));
  stdout.mockRestore();
  const raised = ["main", "searcher", "eval"].map((fleet) => ({ level: "info", what: "fleet", fleet, from: 0, to: 1 }));
  expect(logged).toEqual([
    { level: "info", what: "pulse", running: 1, unserved: 2 },
    { level: "info", what: "run", run: expect.any(String), idleMinutes: 0, spent: 0 },
    ...raised,
  ]);
  expect(plane).toMatchObject({
    clock: "on",
    writes: ["clock on", "clock on", "g-main 1", "g-searcher 1", "g-eval 1"],
  });
}

/** Publishes new versions, whose events arrive through tick's queue; then a scheduled tick. */
async function publishVersions(config: RunConfig, step: StepRecord): Promise<void> {
  const manifests: Record<string, unknown> = {};
  for (const agent of step.trained) manifests[agent] = objectCreated(await publish(store.objects, config, agent, 1));
  expect(await invoke("tick", sqsBatch("TickQueue", manifests))).toEqual({ batchItemFailures: [] });
  expect((await readStep(config.run)).state).toBe("closed");
  const stdout = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  expect(await invoke("tick", scheduled)).toEqual({ batchItemFailures: [] });
  stdout.mockRestore();
  expect(RunRecord.parse(await store.table.get(tableKeys.run(config.run))).status).toBe("finished");
  expect(Object.fromEntries(plane.capacities)).toEqual({ "g-main": 0, "g-searcher": 0, "g-eval": 1 });
}

/** A repeated event yields the same job. Once every job has its result, the scheduled tick turns the schedule off. */
async function evaluateTeam({ run }: RunConfig): Promise<void> {
  const team = sqsBatch("EnqueueEvaluationQueue", { a: objectCreated(objectKeys.team(run, 1)) });
  const jobs = async () =>
    (await store.table.query(tableKeys.run(run).pk, "JOB#")).map((item) => JobRecord.parse(item));
  const queued = await jobs();
  for (const _ of [1, 2]) expect(await invoke("enqueue-evaluation", team)).toEqual({ batchItemFailures: [] });
  expect(await jobs()).toEqual(queued);
  const [job] = queued;
  if (!job) throw new Error("no evaluation was queued");
  const result = resultOf(job);
  const key = objectKeys.evaluation(run, job.job);
  await store.objects.commit(key, bytes(result));
  const recorded = await invoke("record-evaluation", sqsBatch("RecordEvaluationQueue", { r: objectCreated(key) }));
  expect(recorded).toEqual({ batchItemFailures: [] });
  expect((await jobs()).find(({ job: id }) => id === job.job)).toMatchObject({ state: "done", n: 4, correct: 3 });
  for (const open of (await jobs()).filter(({ state }) => state !== "done"))
    await store.objects.commit(objectKeys.evaluation(run, open.job), bytes(resultOf(open)));
  const stdout = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  expect(await invoke("tick", scheduled)).toEqual({ batchItemFailures: [] });
  stdout.mockRestore();
  expect(plane).toMatchObject({ clock: "off", capacities: new Map([...plane.capacities].map(([name]) => [name, 0])) });
}

const resultOf = ({ run, job, team, suite }: JobRecord): EvaluationResult => ({
  run,
  job,
  team,
  suite,
  n: 4,
  correct: 3,
  runs: [{ n: 4, correct: 3 }],
  interval: { low: 0.3, high: 0.95 },
  lost: [],
  questions: [],
  seconds: 1,
});

test.each(NAMES)("%s makes only the requests that its role allows", (name) => {
  const calls = [...(actions.get(name) ?? [])];
  expect(calls.length).toBeGreaterThan(0);
  expect(FUNCTION_ACTIONS[name]).toEqual(expect.arrayContaining(calls));
});
