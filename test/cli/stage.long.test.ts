/**
 * @file Commands on the stage of a deployment. `launch` finds the deployment, starts the run there, turns its schedule on, and says which workers
 * the user must start; `halt`, `show` and `ui` find the run.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import { openAwsStore } from "../../adapters/aws/store.ts";
import { readJobs } from "../../cli/local/read-records.ts";
import { nodeArguments } from "../../cli/local/workers.ts";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { recordFleetRefusal } from "../../core/training/fleet-writes.ts";
import { emptyFleetRecord, MAX_CAPACITY_REQUESTS } from "../../core/training/fleets.ts";
import { endRun, resumeRun } from "../../core/training/writes.ts";
import { composeFunctions } from "../../functions/compose.ts";
import { release } from "../../gpu-workers/release.ts";
import { controlPlane, serveControlPlane } from "../fakes/control-plane.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { projectFolder, RELAY, relaySettings, trainRelay } from "./command-line.ts";
import { printedJson } from "./printed.ts";
import { job } from "./records.ts";
import { serveUi } from "./served-ui.ts";

const RELEASE = release(process.env);
const FLEETS: Deployment["fleets"] = [
  { name: "main", agent: "main", roles: ["rollout", "train"], group: "g-main", max: 2, release: RELEASE },
  { name: "searcher", agent: "searcher", roles: ["rollout", "train"], group: "g-searcher", max: 2, release: RELEASE },
  { name: "eval", agent: "*", roles: ["eval"], group: "g-eval", max: 1, release: RELEASE },
];
const home = process.cwd();
const here = projectFolder();
const store = await openLocalStore();
const plane = controlPlane(FLEETS.map(({ group }) => group));
const server = await serveControlPlane(plane);
Object.assign(process.env, server.environment);
process.chdir(here);
// The user's project, which has the recipe at the path `relay`.
process.env["MGRPO_PROJECT"] = dirname(RELAY);
afterAll(async () => {
  process.chdir(home);
  await store.close();
  await server.close();
  for (const folder of [here, store.directory]) rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  for (const name of ["MGRPO_TABLE", "MGRPO_BUCKET"]) delete process.env[name];
});

/** Creates a table, a bucket and the deployment record, as `sst deploy` does. */
async function deployed(stage: string, fleets: Deployment["fleets"], deployedRelease = RELEASE) {
  const names = { table: `mgrpo-${stage}`, bucket: `objects-${stage}` };
  Object.assign(process.env, { MGRPO_TABLE: names.table, MGRPO_BUCKET: names.bucket });
  await printedJson("cloud", "setup");
  for (const name of ["MGRPO_TABLE", "MGRPO_BUCKET"]) delete process.env[name];
  const stageStore = openAwsStore(names);
  const deployment: Deployment = { release: deployedRelease, bucket: names.bucket, clockRule: "clock", fleets };
  await stageStore.table.insert(tableKeys.deployment, { deployment: JSON.stringify(deployment) });
  return stageStore;
}
const launchRecipe = (recipe: string, stage: string, run: string, ...more: string[]) =>
  printedJson("launch", recipe, ...trainRelay(run, "--steps", "1").slice(2), "--stage", stage, ...more);
const launch = (stage: string, run: string, ...more: string[]) => launchRecipe(basename(RELAY), stage, run, ...more);

test("a stage with fleets leaves the user nothing to start; launching a halted run again turns the schedule on and resumes the run; show names the fleet that refuses the run", async () => {
  const { table, close } = await deployed("all", FLEETS);
  const launched = {
    kind: "launched",
    run: "far",
    table: "mgrpo-all",
    bucket: "objects-all",
    fleets: true,
    workers: [],
  };
  expect(await launch("all", "far")).toEqual([launched]);
  const run = async () => RunRecord.parse(await table.get(tableKeys.run("far")));
  expect([(await run()).status, plane.clock]).toEqual(["running", "on"]);
  const reason = "halted by its user; launch it again to resume";
  for (const _ of [1, 2])
    expect(await printedJson("halt", "far", "--stage", "all")).toEqual([
      { kind: "halted", run: "far", status: "halted", reason },
    ]);
  await expect(printedJson("halt", "near", "--stage", "all")).rejects.toThrow(
    /no run 'near' in table 'mgrpo-all': list them with `MGRPO_TABLE=mgrpo-all MGRPO_BUCKET=objects-all .* runs`/,
  );
  plane.clock = "off";
  expect(await launch("all", "far")).toEqual([launched]);
  expect([(await run()).status, plane.clock]).toEqual(["running", "on"]);
  // An instance of a later deployment refuses the run.
  const fleet = { run: "far", fleet: "main" };
  await table.insert(tableKeys.fleet("far", "main"), emptyFleetRecord("far", "main"));
  await table.update(recordFleetRefusal(fleet, { release: "0.2.0+0", reason: "worker 'w' has another release" }));
  Object.assign(process.env, { MGRPO_TABLE: "mgrpo-all", MGRPO_BUCKET: "objects-all" });
  expect((await printedJson("show", "far")).filter(({ kind }) => kind !== "spent")).toEqual([
    expect.objectContaining({ kind: "state", state: "running", step: 0, reason: "" }),
    { kind: "waiting", step: 0, for: "waiting for: main/rollout, searcher/rollout" },
    { kind: "refused", fleet: "main", release: "0.2.0+0", reason: "worker 'w' has another release" },
  ]);
  await expect(launch("all", "far", "--budget-hours", "1")).rejects.toThrow(/no budget.hours to raise/);
  await expect(launch("all", "near", "--budget-usd", "1")).rejects.toThrow(/'near' is not in the store yet/);
  close();
});

test("a run that has finished training can be halted while evaluations are left, but not after them", async () => {
  const stage = await deployed("ended", FLEETS);
  const { table, close } = stage;
  await launch("ended", "far");
  await table.update(endRun("far", "finished"));
  const halted = async () => {
    const [line] = await printedJson("halt", "far", "--stage", "ended");
    return [line?.["kind"], line?.["status"], RunRecord.parse(await table.get(tableKeys.run("far"))).status];
  };
  expect(await halted()).toEqual(["halted", "halted", "halted"]);
  await table.update(resumeRun("far"));
  await table.update(endRun("far", "finished"));
  // Those of the first team, which launch has queued.
  const queued = await readJobs(stage, "far");
  expect(queued).toHaveLength(2);
  for (const { job: id, suite } of queued) {
    const key = tableKeys.job("far", id);
    await table.delete(key);
    await table.insert(key, { ...job(suite, 0, 1), run: "far", job: id });
  }
  expect(await halted()).toEqual(["unchanged", "finished", "finished"]);
  close();
});

test("show says that a run has given up on its evaluation fleet", async () => {
  const { table, close } = await deployed("stuck", FLEETS);
  await launch("stuck", "far");
  const requested = async (capacityRequests: number) => {
    const key = tableKeys.fleet("far", "eval");
    await table.delete(key);
    await table.insert(key, { ...emptyFleetRecord("far", "eval"), capacityRequests });
    Object.assign(process.env, { MGRPO_TABLE: "mgrpo-stuck", MGRPO_BUCKET: "objects-stuck" });
    return (await printedJson("show", "far")).filter(({ kind }) => kind === "refused");
  };
  expect(await requested(MAX_CAPACITY_REQUESTS)).toEqual([]);
  const reason = expect.stringMatching(/^they came up 5 times without completing an evaluation; .* logs\/eval\/ /);
  expect(await requested(MAX_CAPACITY_REQUESTS + 1)).toEqual([
    { kind: "refused", fleet: "eval", release: RELEASE, reason },
  ]);
  close();
});

test("worker processes that know only their fleet serve the run to its end, and exit", async () => {
  const stage = await deployed("worked", FLEETS);
  await launch("worked", "far");
  const functions = composeFunctions(stage);
  const environment = {
    ...{ MGRPO_TABLE: "mgrpo-worked", MGRPO_BUCKET: "objects-worked" },
    MGRPO_WORKER_TOKEN: "a token of sixteen letters or more",
  };
  const work = async (fleet: string) => {
    const worker = spawn(process.execPath, [...nodeArguments("gpu-workers/worker"), "--fleet", fleet], {
      env: { ...process.env, ...environment },
      stdio: "ignore",
    });
    expect(await once(worker, "exit")).toEqual([0, null]);
  };
  let busy = true;
  const ticking = (async () => {
    while (busy) {
      await functions.tickAll();
      // The events that tick redelivers reach score-rollout.
      for (const key of plane.redelivered.splice(0)) await functions.scoreRollout({ key });
      await stage.clock.sleep(0.1);
    }
  })();
  await Promise.all(FLEETS.map(({ name }) => work(name)));
  expect(RunRecord.parse(await stage.table.get(tableKeys.run("far")))).toMatchObject({ status: "finished", step: 1 });
  // The evaluations after training may be queued after the evaluator has exited.
  const openJobs = async () =>
    (await stage.table.query(tableKeys.run("far").pk, tablePrefixes.jobs)).filter(({ state }) => state !== "done");
  if ((await openJobs()).length > 0) await work("eval");
  expect(await openJobs()).toEqual([]);
  busy = false;
  await ticking;
  stage.close();
});

test("the dashboard of a stage shows its runs", async () => {
  const { close } = await deployed("shown", FLEETS);
  await launch("shown", "far");
  const ui = await serveUi(here, ["ui", "far", "--stage", "shown"], /"link":"([^"]*)"/);
  expect(new URL(ui.link).pathname).toBe("/runs/far");
  expect(await ui.view("/runs")).toMatchObject({ runs: [{ run: "far", state: "running" }], failure: null });
  expect(await ui.view("/runs/far")).toMatchObject({ run: "far", perStep: [] });
  await ui.close();
  close();
  await expect(printedJson("ui", "far", "--stage", "none")).rejects.toThrow(/--stage none/);
});

test("without fleets, or with fleets for some agents, launch prints the commands of the workers that no fleet starts", async () => {
  const [bare, some] = [await deployed("bare", []), await deployed("some", FLEETS.slice(0, 1))];
  const [launched] = await launch("bare", "far");
  expect(launched).toMatchObject({ fleets: false });
  expect(launched?.["workers"]).toHaveLength(3);
  expect(plane.clock).toBe("on");
  const [partly] = await launch("some", "far");
  expect(partly).toMatchObject({
    fleets: true,
    workers: [/--agent searcher/, /--agent '\*'/].map((flags) => expect.stringMatching(flags)),
  });
  for (const { close } of [bare, some]) close();
});

test("a recipe that functions and instances would not find is refused", async () => {
  const { table, close } = await deployed("recipes", FLEETS);
  await expect(launchRecipe(RELAY, "recipes", "far")).rejects.toThrow(
    /^recipe '.*relay': a deployment finds it by its path in MGRPO_PROJECT: launch relay$/,
  );
  delete process.env["MGRPO_PROJECT"];
  await expect(launchRecipe(RELAY, "recipes", "far")).rejects.toThrow(
    /^recipe '.*relay' is not deployed: set MGRPO_PROJECT to its project for npm run pack,/,
  );
  process.env["MGRPO_PROJECT"] = dirname(RELAY);
  expect(await table.get(tableKeys.run("far"))).toBeUndefined();
  close();
});

test("settings, stages and releases that cannot work are refused before anything starts", async () => {
  const { table, close } = await deployed("strict", FLEETS);
  await expect(launch("strict", "far", "--set", "agents.main.workers=3")).rejects.toThrow(
    /agents.main.workers is 3, but fleet main has at most 2 instances/,
  );
  await expect(launch("strict", "far", "--set", "evaluation.workers=2")).rejects.toThrow(/evaluation.workers is 2/);
  process.env["MGRPO_TABLE"] = "another";
  await expect(launch("strict", "far")).rejects.toThrow(
    /--stage strict has MGRPO_TABLE 'mgrpo-strict', but the environment has 'another'/,
  );
  delete process.env["MGRPO_TABLE"];
  await expect(launch("nowhere", "far")).rejects.toThrow(/has no deployment of that name.*sst deploy --stage nowhere/);
  const judged = join(here, "judged");
  cpSync(RELAY, judged, { recursive: true });
  writeFileSync(
    join(judged, "rewards.js"),
    'export const rewards = { judge: "j", correct: () => 1, expert: () => 1 };',
  );
  const settings = [...relaySettings(), "--set", "judge.model=openai#gpt-5-mini"];
  await expect(printedJson("launch", judged, "--run", "far", ...settings, "--stage", "strict")).rejects.toThrow(
    /judge.model: a deployment has the judge's key in MGRPO_JUDGE_KEY only/,
  );
  expect(await table.get(tableKeys.run("far"))).toBeUndefined();
  close();
  const before = await deployed("before", FLEETS, "0.0.9+0123456789ab");
  await expect(launch("before", "far")).rejects.toThrow(
    `release 0.0.9+0123456789ab is deployed, and this is ${RELEASE}: launch from the checkout that was deployed, with the same MGRPO_PROJECT if it was set, or`,
  );
  expect(await before.table.get(tableKeys.run("far"))).toBeUndefined();
  before.close();
});
