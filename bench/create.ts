/**
 * @file create.*: seconds from nothing to a trained team in a new project, by the steps that a user takes: `npx create-mgrpo`, `npm install`
 * from the registry with an empty cache, `npm start`. create.pack, the time to make both archives from this checkout, is what published
 * packages spare the user; create.total is the sum of the rest. Takes several minutes.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { builtModule } from "../built-module.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import { print, secondsOf } from "./measurement.ts";

const RUN = "bench";
const ROOT = fileURLToPath(new URL("../..", builtModule("bench/create")));

const Score = z.object({ n: z.int(), correct: z.number() }).nullable();
const Report = z.object({ steps: z.int(), heldOut: z.object({ before: Score, after: Score }) });

if (!existsSync(join(ROOT, "build.mjs")))
  throw new MgrpoError(
    "not-found",
    `benchmark 'create' packs a checkout of the repository, and ${ROOT} is not one: run it in a checkout`,
  );
const folder = mkdtempSync(join(tmpdir(), "mgrpo-bench-create-"));
try {
  await measure();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure(): Promise<void> {
  const project = join(folder, "my-team");
  const config = { node: process.version };
  const timed = async (phase: string, work: () => void) => {
    const seconds = await secondsOf(async () => work());
    print(`create.${phase}`, seconds, "s", config);
    return seconds;
  };
  await timed("pack", () => {
    pack(ROOT);
    pack(join(ROOT, "create"));
  });
  const { version } = parseJson(
    z.object({ version: z.string() }),
    readFileSync(join(ROOT, "package.json")),
    "package.json",
  );
  const [mgrpo, creator] = ["mgrpo", "create-mgrpo"].map((name) => join(folder, `${name}-${version}.tgz`));
  const waited = [
    await timed("project", () => run(folder, "npx", "--yes", `file:${creator}`, "my-team", "--mgrpo", String(mgrpo))),
    await timed("install", () => run(project, "npm", "install")),
    await timed("train", () => run(project, "npm", "start", "--", "--run", RUN)),
  ];
  const { steps, heldOut } = parseJson(Report, readFileSync(join(project, "runs", RUN, "report.json")), "report.json");
  print(
    "create.total",
    waited.reduce((sum, seconds) => sum + seconds),
    "s",
    { ...config, steps, heldOut },
  );
}

function pack(location: string): void {
  run(location, "npm", "pack", "--ignore-scripts=false", "--pack-destination", folder, "--silent");
}

/** Uses the benchmark's own npm cache, which is empty at first. */
function run(cwd: string, command: string, ...args: string[]): void {
  const env = { ...process.env, npm_config_cache: join(folder, "npm-cache") };
  execFileSync(command, args, { cwd, env, stdio: ["ignore", "ignore", "inherit"] });
}
