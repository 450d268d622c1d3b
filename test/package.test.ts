/**
 * @file The package as another system meets it: packed, unpacked into an empty folder beside zod alone, type-checked and used. What
 * needs more than zod (engines, stores, the command line) is not needed for the algorithm and the ports.
 */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
let folder: string;
let tarball: string;

const CONSUMER = `
import { mainReward, subReward } from "mgrpo/mgrpo/reward";
import { RunConfig } from "mgrpo/contracts/config";
import { MgrpoError } from "mgrpo/errors";
import type { Recipe } from "mgrpo/recipe";
import type { Rewards } from "mgrpo/ports";

const agents = { main: { model: "models/main" } };
const recipe: Recipe = {
  name: "mine",
  config: () => ({ steps: 3, agents }),
  questions: () => ({ train: [], heldOut: [] }),
};
const rewards: Rewards = { correct: () => 1, expert: () => 1 };
const config = RunConfig.parse({ ...recipe.config("mgrpo", () => undefined), run: "r", recipe: recipe.name });
console.log(
  JSON.stringify({
    main: mainReward(true, 1, config.algorithm.mainReward),
    sub: subReward(true, 1, 0.5, config.algorithm.subReward),
    error: new MgrpoError("deadline", "late").code,
    expert: typeof rewards.expert,
  }),
);
`;

const TSCONFIG = {
  compilerOptions: { module: "NodeNext", target: "ES2023", strict: true, noEmit: true, skipLibCheck: false, types: [] },
  include: ["*.ts"],
};

/** The three files of a recipe, as the README shows them. */
function readmeRecipe(): [string, string][] {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const blocks = [...readme.matchAll(/^`(\w+\.ts)`[^`]*```ts\n(.*?)```/gms)];
  return blocks.map(([, name = "", code = ""]) => [name, code]);
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "mgrpo-package-"));
  const packed = execFileSync("npm", ["pack", "--pack-destination", folder, "--silent"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  tarball = join(folder, packed.trimEnd().split("\n").at(-1) ?? "");
  const installed = join(folder, "node_modules", "mgrpo");
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["-xzf", tarball, "-C", installed, "--strip-components=1"]);
  symlinkSync(join(ROOT, "node_modules", "zod"), join(folder, "node_modules", "zod"), "junction");
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  writeFileSync(join(folder, "consumer.ts"), CONSUMER);
  for (const [name, code] of readmeRecipe()) writeFileSync(join(folder, name), code);
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(TSCONFIG));
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("its types check in a strict consumer, and in the recipe that the README shows", () => {
  expect(readmeRecipe().map(([name]) => name)).toEqual(["recipe.ts", "tools.ts", "rewards.ts"]);
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");
  expect(() => execFileSync(tsc, ["-p", folder], { stdio: "pipe", encoding: "utf8" })).not.toThrow();
});

test("the algorithm runs with nothing but zod beside it", () => {
  const tsx = join(ROOT, "node_modules", "tsx", "dist", "esm", "index.mjs");
  const output = execFileSync(process.execPath, ["--import", tsx, "consumer.ts"], { cwd: folder, encoding: "utf8" });
  // eq 4: 0.1 + 0.9; eq 5: 0.1 + 0.4 + 0.5 * 0.5
  const { main, sub, error, expert } = JSON.parse(output);
  expect(main).toBeCloseTo(1, 12);
  expect(sub).toBeCloseTo(0.75, 12);
  expect([error, expert]).toEqual(["deadline", "function"]);
});

test("it carries the compiled command line and recipe, and no sources, tests or runs", () => {
  const names = execFileSync("tar", ["-tzf", tarball], { encoding: "utf8" }).split("\n");
  for (const name of [
    "dist/cli/mgrpo.js",
    "dist/release",
    "dist/recipes/atlas/recipe.js",
    "dist/gpu-workers/worker.js",
    "LICENSE",
  ]) {
    expect(names).toContain(`package/${name}`);
  }
  expect(names.filter((name) => /^package\/(test|runs|node_modules)\/|[^d]\.ts$/.test(name))).toEqual([]);
});

test("whatever its modules import of the package is in it", () => {
  const dist = join(folder, "node_modules", "mgrpo", "dist");
  const modules = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".js"));
  expect(modules.length).toBeGreaterThan(200);
  const imports = modules.flatMap((name) => {
    const source = readFileSync(join(dist, name), "utf8");
    const found = [...source.matchAll(/\b(?:from|import)\s*\(?\s*"(\.\.?\/[^"]+)"/g)].map(([, path = ""]) => path);
    return found.map((path) => join(dirname(name), path));
  });
  expect([...new Set(imports)].filter((path) => !existsSync(join(dist, path)))).toEqual([]);
});
