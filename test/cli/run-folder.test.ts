/**
 * @file A run's folder. The status of a running run holds the keys of its cloud: once written, only its owner can read it, whatever the umask. A run's
 * name says its arm and seed, and is its folder's name. A failed write leaves no temporary file. A run is running only while its process lives.
 * The error for an unknown run says what exists.
 */
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { startOfProcess } from "../../cli/local/process-identity.ts";
import {
  createRunFolder,
  existingRun,
  readConfig,
  readStatus,
  runFolder,
  writeStatus,
} from "../../cli/local/run-folder.ts";
import { createUnnamedRun, freeRunName, runNameOf } from "../../cli/local/run-name.ts";
import { writeAtomically } from "../../cli/local/written-files.ts";
import { RunName } from "../../core/contracts/names.ts";
import { config } from "./records.ts";

const home = process.cwd();
const modeOf = (path: string) => statSync(path).mode & 0o777;
let folder = "";
let umask = 0;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "mgrpo-run-folder-"));
  process.chdir(folder);
  umask = process.umask(0);
});
afterEach(() => {
  process.umask(umask);
  process.chdir(home);
  rmSync(folder, { recursive: true });
});

const statusWithKey = () => ({
  ...readStatus(runFolder(config.run)),
  environment: { AWS_SECRET_ACCESS_KEY: "a secret of this run" },
});

test("only the owner can read the status, after the first write and every later one", () => {
  const run = createRunFolder(config);
  for (const _ of [1, 2]) {
    writeStatus(run, statusWithKey());
    expect(modeOf(run.status)).toBe(0o600);
  }
  expect(readStatus(run).environment).toEqual(statusWithKey().environment);
});

test("a leftover temporary file that others can read does not become the status", () => {
  const run = createRunFolder(config);
  const temporary = `${run.status}.${process.pid}.tmp`;
  writeFileSync(temporary, "left by a killed process", { mode: 0o644 });
  writeStatus(run, statusWithKey());
  expect(modeOf(run.status)).toBe(0o600);
  expect(existsSync(temporary)).toBe(false);
});

test("a status that others can read is private after the next write", () => {
  const run = createRunFolder(config);
  const status = statusWithKey();
  writeFileSync(run.status, "{}", { mode: 0o644 });
  writeStatus(run, status);
  expect(modeOf(run.status)).toBe(0o600);
});

test("a run that another process creates after the check is not overwritten", () => {
  // A link to a missing file stands for that run: the check does not see it.
  mkdirSync(runFolder(config.run).path, { recursive: true });
  symlinkSync("another run's config", runFolder(config.run).config);
  expect(() => createRunFolder(config)).toThrow(`run '${config.run}' exists at`);
  expect(readlinkSync(runFolder(config.run).config)).toBe("another run's config");
  expect(readdirSync(runFolder(config.run).path).sort()).toEqual(["config.json", "logs"]);
});

test("runs that start at the same time without names get different ones", () => {
  const freeName = () => freeRunName("tally", "mgrpo", 1);
  const planned = { ...config, run: freeName() };
  const started = [1, 2, 3].map(() => createUnnamedRun(planned, freeName));
  const names = ["tally-mgrpo-seed1", "tally-mgrpo-seed1-2", "tally-mgrpo-seed1-3"];
  expect(started.map((one) => one.config.run)).toEqual(names);
  expect(started.map((one) => readConfig(one.folder).run)).toEqual(names);
  // Another process takes the third name between the search for a free one and the creation of the folder.
  const found = ["tally-mgrpo-seed1-3", "tally-mgrpo-seed1-4"];
  expect(createUnnamedRun(planned, () => found.shift() ?? "").config.run).toBe("tally-mgrpo-seed1-4");
});

test("the error for an unknown run names the known runs; if there are none, it has a command that starts one", () => {
  expect(() => existingRun("gone")).toThrow(/no run 'gone' under .*runs; start one with `.* train atlas`$/);
  createRunFolder(config);
  expect(() => existingRun("gone")).toThrow(`known: ${config.run}`);
});

test("a run whose process is gone is stopped, even if another process has its id now", () => {
  const run = createRunFolder(config);
  const other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
  onTestFinished(() => void other.kill());
  const pid = other.pid ?? 0;
  const stateWith = (processStart: string) => {
    writeStatus(run, { ...statusWithKey(), state: "running", pid, processStart });
    return readStatus(run);
  };
  expect(stateWith(startOfProcess(pid))).toMatchObject({ state: "running", pid });
  // Without a start, only the id is known.
  expect(stateWith("")).toMatchObject({ state: "running", pid });
  expect(stateWith("an earlier boot 1")).toMatchObject({ state: "stopped", pid: 0, environment: {} });
});

test.runIf(process.platform === "linux")(
  "the start of a process is its boot id and start time, and stays the same; without a process it is empty",
  () => {
    expect(startOfProcess(process.pid)).toMatch(/^[0-9a-f-]{36} \d+$/);
    expect(startOfProcess(process.pid)).toBe(startOfProcess(process.pid));
    expect(startOfProcess(0)).toBe("");
  },
);

test("a failed write leaves no temporary file", () => {
  mkdirSync("taken");
  expect(() => writeAtomically("taken", "text")).toThrow();
  expect(readdirSync(".")).toEqual(["taken"]);
});

test("a run's name that is too long is shortened in the recipe's part: it still says the arm and the seed", () => {
  expect(runNameOf("atlas", "mgrpo", 1, 1)).toBe("atlas-mgrpo-seed1");
  // 56 characters: 30 of the recipe and 26 of the arm and the seed.
  const name = `${"r".repeat(30)}-weighted-alignment-seed12`;
  expect(runNameOf("r".repeat(60), "weighted-alignment", 12, 1)).toBe(name);
  expect(runNameOf("r".repeat(60), "weighted-alignment", 12, 2)).toBe(`${name}-2`);
});

test.each([
  ["My Team", "My-Team-mgrpo-seed1"],
  ["équipe n° 2", "quipe-n-2-mgrpo-seed1"],
  ["команда", "recipe-mgrpo-seed1"],
])("recipe '%s' gives its runs a valid name", (recipe, name) => {
  expect(runNameOf(recipe, "mgrpo", 1, 1)).toBe(name);
  expect(RunName.safeParse(name).success).toBe(true);
});

test("a copied or renamed folder is refused: a command on it would write into the folder that has the run's name", () => {
  const run = createRunFolder(config);
  renameSync(run.path, runFolder("kept").path);
  expect(() => readConfig(runFolder("kept"))).toThrow(
    `holds run '${config.run}', but a run's folder must have the run's name: rename it`,
  );
  renameSync(runFolder("kept").path, run.path);
  expect(readConfig(run)).toEqual(config);
});
