/** @file The processes of a comparison: what goes wrong with one is reported as its run's failure, and the others are awaited. */
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { entriesOf, planRun } from "../../cli/compare/plan.ts";
import type { ComparisonDisplay } from "../../cli/compare/progress.ts";
import { provenanceOf, writeOrigin } from "../../cli/compare/provenance.ts";
import { trainRuns } from "../../cli/compare/runs.ts";
import { createRunFolder, readStatus, runFolder } from "../../cli/local/run-folder.ts";
import { recipe } from "../fixtures/relay/recipe.ts";
import { chdirToProject } from "./command-line.ts";
import { IDENTIFIED } from "./compared-runs.ts";

const folder = chdirToProject();
const { execPath } = process;
afterEach(() => {
  process.execPath = execPath;
  rmSync(join(folder, "runs"), { recursive: true, force: true });
});

const options = {
  arms: ["mgrpo" as const],
  seeds: [1, 2],
  jobs: 2,
  vary: [],
  set: [],
  from: [],
  name: "c",
  mixed: false,
};
const [entry = expect.fail()] = entriesOf(options);
const planned = [1, 2].map((seed) => {
  const run = planRun({ recipe, recipeName: "relay", options }, entry, seed, undefined);
  return { ...run, by: provenanceOf(run.config, IDENTIFIED) };
});

/** A program to take the place of Node.js. */
function program(script: string): string {
  const path = join(folder, "program");
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

/** Trains both runs at the same time, with the program `node` in place of Node.js. `stop`: aborts while their processes start. */
async function trainWith(node: string, { stop = false, runs = planned } = {}) {
  process.execPath = node;
  const ended: string[] = [];
  const display: ComparisonDisplay = {
    ...{ kept() {}, started() {}, line() {}, close() {}, print() {} },
    ended: (run, fault) => ended.push(`${run}: ${fault}`),
  };
  const controller = new AbortController();
  const trained = trainRuns(runs, join(folder, "results/c"), "relay", options, display, controller.signal);
  if (stop) controller.abort();
  return { ended, failures: [...(await trained)] };
}

test("a run whose process cannot be started is a failure of that run", async () => {
  const fault = "Error: spawn /nowhere/node ENOENT";
  expect((await trainWith("/nowhere/node")).failures).toEqual([
    ["c-mgrpo-seed1", fault],
    ["c-mgrpo-seed2", fault],
  ]);
});

test("no run starts once the package has been built again: its record would name another release", async () => {
  const runs = planned.map((one) => ({ ...one, by: { ...one.by, release: "0.0.1+0123456789ab" } }));
  const { failures } = await trainWith("/nowhere/node", { runs });
  const fault = expect.stringMatching(
    /^this comparison trains with release 0.0.1\+0123456789ab, but .* has been built since/,
  );
  expect(failures.map(([, text]) => text)).toEqual([fault, fault]);
});

test("if a run's folder cannot be created, that run fails, and another that still trains is awaited", async () => {
  const slow = program("sleep 1; echo 'mgrpo: it is late' >&2; exit 1");
  mkdirSync(join(folder, "runs"));
  writeFileSync(join(folder, "runs/c-mgrpo-seed1"), "a file where the run's folder should be");
  const { ended, failures } = await trainWith(slow);
  expect(ended).toEqual([expect.stringMatching(/seed1: Error: E/), "c-mgrpo-seed2: it is late"]);
  expect(failures.map(([run]) => run)).toEqual(["c-mgrpo-seed1", "c-mgrpo-seed2"]);
});

test("a run trains the hub models at the commits that the comparison read", async () => {
  const printing = program('echo "mgrpo: $*" >&2; exit 1');
  const model = `hf:owner/tiny@${"b".repeat(40)}`;
  const runs = planned.map((one) => {
    const { main = expect.fail(), ...others } = one.config.agents;
    return { ...one, config: { ...one.config, agents: { ...others, main: { ...main, model } } } };
  });
  const { failures } = await trainWith(printing, { runs });
  const fault = expect.stringContaining(`--set agents.main.model=${model}`);
  expect(failures.map(([, text]) => text)).toEqual([fault, fault]);
});

const inColor = "printf '\\033[31mmgrpo:\\033[39m it is late\\n' >&2";

test.each<[what: string, script: string, fault: string]>([
  ["its error, whatever it prints afterward", `${inColor}; echo '  at main' >&2; exit 1`, "it is late"],
  ["the signal that killed it, not a warning", "echo 'warning: no memory' >&2; kill -KILL $$", "killed by SIGKILL"],
  ["its last line if it printed no error", "echo 'a' >&2; echo 'no such option' >&2; exit 1", "no such option"],
  ["its exit code if it printed nothing", "exit 3", "ended with exit code 3"],
])("the failure of a process is %s", async (_, script, fault) => {
  const failing = program(script);
  const { failures } = await trainWith(failing);
  expect(Object.fromEntries(failures)).toEqual({ "c-mgrpo-seed1": fault, "c-mgrpo-seed2": fault });
});

test("Ctrl-C reaches a run whose process is still starting", async () => {
  const endless = program("exec sleep 20");
  const { ended, failures } = await trainWith(endless, { stop: true });
  // Both train at the same time, so either may end first.
  expect(ended.sort()).toEqual(["c-mgrpo-seed1: stopped", "c-mgrpo-seed2: stopped"]);
  expect(failures).toEqual([]);
});

test("the error for a finished run's damaged results says how to recreate them", async () => {
  const [one = expect.fail()] = planned;
  writeOrigin(runFolder(one.config.run), one.by);
  const run = createRunFolder(one.config);
  writeFileSync(run.status, JSON.stringify({ ...readStatus(run), state: "finished" }));
  writeFileSync(run.report, "{}");
  await expect(trainWith("/nowhere/node", { runs: [one] })).rejects.toThrow(
    /report\.json: .*: remove this file, and resume the run to recreate it$/,
  );
});
