/**
 * @file Both packages as users get them: packed, then unpacked into empty folders, with links to this repository's dependencies. The
 * algorithm and a recipe's types need nothing but zod; a created project compiles and passes its own test. test/new-project.long.test.ts
 * installs and trains one with npm. test/package.test.ts checks, in every run of the tests, what needs no declarations.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { packArchives } from "../bench/new-project.ts";

const ROOT = resolve(import.meta.dirname, "..");
const TSC = join(ROOT, "node_modules", ".bin", "tsc");
const folder = mkdtempSync(join(tmpdir(), "mgrpo-package-"));
const created = join(folder, "my team");
const algorithm = join(folder, "algorithm");
const whole = join(folder, "whole");
let tarball: string;
let creator: string;

const CONSUMER = `
import { mainReward, subReward } from "mgrpo/algorithm";
import { answerTurn } from "mgrpo/base-model";
import { RunConfig } from "mgrpo/contracts";
import { parseTurn } from "mgrpo/conversation";
import { MgrpoError } from "mgrpo/errors";
import { stream } from "mgrpo/random";
import { type Recipe, type Rewards, resolveConfig } from "mgrpo/recipe";

const recipe: Recipe = {
  name: "mine",
  config: { steps: 3, agents: { main: { model: "models/main" } } },
  questions: () => ({ train: [], heldOut: [] }),
};
const rewards: Rewards = { correct: () => 1, expert: () => 1 };
const { algorithm }: RunConfig = RunConfig.parse(resolveConfig(recipe, { run: "r", seed: 1, arm: "mgrpo" }));
const result = {
  main: mainReward(true, 1, algorithm.mainReward),
  sub: subReward(true, 1, 0.5, algorithm.subReward),
  error: new MgrpoError("deadline", "late").code,
  expert: typeof rewards.expert,
  uniform: stream(1).uniform(),
  turn: parseTurn(answerTurn("Lima"), { parameters: new Map() }, 1),
};
export default JSON.stringify(result);
`;

/** Entries that need the other dependencies. */
const ENTRIES = `
import { rolloutHandler } from "mgrpo/app";
import { openEngine } from "mgrpo/engine";
import { judgedRewards } from "mgrpo/judges";
import { openTinkerClient } from "mgrpo/tinker";
import { openWebTools } from "mgrpo/tools";

export const entries: readonly ((...args: never) => unknown)[] = [
  rolloutHandler,
  openEngine,
  judgedRewards,
  openTinkerClient,
  openWebTools,
];
`;

const tsconfigOf = (libraries: object) => ({
  compilerOptions: { module: "NodeNext", target: "ES2023", strict: true, noEmit: true, ...libraries },
  include: ["*.ts"],
});

function run(cwd: string, command: string, ...args: string[]): string {
  return execFileSync(command, args, { cwd, encoding: "utf8", stdio: "pipe" });
}

/** Returns what tsc reports, or "" if it succeeds. The status decides: a tsc that crashes or does not start prints nothing on stdout. */
function typeErrors(cwd: string): string {
  const { status, stdout, stderr } = spawnSync(TSC, ["-p", "."], { cwd, encoding: "utf8" });
  return status === 0 ? "" : `tsc ended with ${status}: ${stdout}${stderr}`;
}

const namesIn = (archive: string): string[] => run(folder, "tar", "-tzf", archive).trimEnd().split("\n");

/** A project that has the package and the named dependencies installed. */
function createProject(location: string, dependencies: readonly string[], tsconfig: object): void {
  const installed = join(location, "node_modules", "mgrpo");
  mkdirSync(installed, { recursive: true });
  run(folder, "tar", "-xzf", tarball, "-C", installed, "--strip-components=1");
  for (const name of dependencies)
    symlinkSync(join(ROOT, "node_modules", name), join(location, "node_modules", name), "junction");
  writeFileSync(join(location, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(location, "tsconfig.json"), JSON.stringify(tsconfig));
}

beforeAll(() => {
  ({ mgrpo: tarball, creator } = packArchives(folder));
  createProject(algorithm, ["zod"], tsconfigOf({ skipLibCheck: false, types: [] }));
  writeFileSync(join(algorithm, "consumer.ts"), CONSUMER);
  copyFileSync(join(ROOT, "test/fixtures/misspelled-config.ts"), join(algorithm, "misspelled-config.ts"));
  const everything = readdirSync(join(ROOT, "node_modules")).filter((name) => !name.startsWith("."));
  createProject(whole, everything, tsconfigOf({ skipLibCheck: true, types: ["node"] }));
  writeFileSync(join(whole, "entries.ts"), ENTRIES);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the types of the algorithm compile with no package but zod, and reject misspelled keys of a recipe's config", () => {
  expect(typeErrors(algorithm)).toBe("");
});

test("the algorithm runs with no package but zod", () => {
  const tsx = join(ROOT, "node_modules", "tsx", "dist", "esm", "index.mjs");
  const script = 'import text from "./consumer.ts"; console.log(text)';
  const output = run(algorithm, process.execPath, "--import", tsx, "--input-type=module", "--eval", script);
  // eq 4: 0.1 + 0.9; eq 5: 0.1 + 0.4 + 0.5 * 0.5
  const { main, sub, error, expert, turn } = JSON.parse(output);
  expect(main).toBeCloseTo(1, 12);
  expect(sub).toBeCloseTo(0.75, 12);
  expect([error, expert]).toEqual(["deadline", "function"]);
  expect(turn).toEqual({ kind: "answer", answer: "Lima" });
});

test("the entries for apps, the engine, judges, Tinker and tools type-check and load with all dependencies", () => {
  expect(typeErrors(whole)).toBe("");
  const tsx = join(ROOT, "node_modules", "tsx", "dist", "esm", "index.mjs");
  const script = 'import { entries } from "./entries.ts"; console.log(entries.map((entry) => typeof entry).join())';
  const output = run(whole, process.execPath, "--import", tsx, "--input-type=module", "--eval", script);
  expect(output.trim().split(",")).toEqual(Array(5).fill("function"));
});

describe("a project of create-mgrpo", () => {
  beforeAll(() => {
    run(folder, "tar", "-xzf", creator);
    run(folder, process.execPath, "package/index.js", "my team", "--mgrpo", tarball);
  });

  test("is named after its folder, depends on the given archive and this repository's versions, ignores install scripts; both packages share a version", () => {
    const Project = z.object({
      name: z.string(),
      dependencies: z.record(z.string(), z.string()),
      devDependencies: z.record(z.string(), z.string()),
    });
    const project = Project.parse(JSON.parse(readFileSync(join(created, "package.json"), "utf8")));
    expect(project.name).toBe("my-team");
    expect(project.dependencies["mgrpo"]).toBe(`file:${tarball}`);
    const Own = z.object({
      version: z.string(),
      dependencies: z.record(z.string(), z.string()),
      devDependencies: z.record(z.string(), z.string()),
    });
    const own = Own.parse(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")));
    const known = { ...own.dependencies, ...own.devDependencies };
    for (const [name, version] of Object.entries({ ...project.dependencies, ...project.devDependencies })) {
      if (name !== "mgrpo") expect(version, name).toBe(known[name]);
    }
    const { version } = z
      .object({ version: z.string() })
      .parse(JSON.parse(readFileSync(join(folder, "package", "package.json"), "utf8")));
    expect(version).toBe(own.version);
    expect(readFileSync(join(created, ".npmrc"), "utf8")).toContain("ignore-scripts=true");
  });

  test("compiles and passes its own test", () => {
    const modules = join(created, "node_modules");
    mkdirSync(modules);
    symlinkSync(join(whole, "node_modules", "mgrpo"), join(modules, "mgrpo"), "junction");
    for (const name of ["zod", "tsx", "@types"])
      symlinkSync(join(ROOT, "node_modules", name), join(modules, name), "junction");
    expect(typeErrors(created)).toBe("");
    // From Node.js 23 on, the default is not TAP.
    const options = ["--import", "tsx", "--test", "--test-reporter=tap"];
    const output = run(created, process.execPath, ...options, "team/recipe.test.ts");
    expect(output).toMatch(/^# fail 0$/m);
  });

  test("is not written into a folder that is not empty, or over a file", () => {
    const again = () => run(folder, process.execPath, "package/index.js", "my team");
    expect(again).toThrow(/my team is not empty: name a new folder/);
    writeFileSync(join(folder, "a file"), "");
    const file = () => run(folder, process.execPath, "package/index.js", "a file");
    expect(file).toThrow(/a file is not a folder: give another name/);
  });
});

test("every export exists, with its types", () => {
  const Exports = z.object({ exports: z.record(z.string(), z.union([z.string(), z.record(z.string(), z.string())])) });
  const { exports } = Exports.parse(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")));
  const files = Object.values(exports).flatMap((entry) => (typeof entry === "string" ? entry : Object.values(entry)));
  const names = namesIn(tarball);
  expect(files.length).toBeGreaterThan(15);
  for (const file of files) expect(names).toContain(`package/${file.replace(/^\.\//, "")}`);
});
