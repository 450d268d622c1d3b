/**
 * @file `mgrpo doctor`: what works on this machine, and how to fix what does not. Exits with 1 if the check of
 * Node.js, the disk, the embedded cloud or the compiled engine fails, or if the given model could not be trained here.
 */
import { statfsSync } from "node:fs";
import { availableParallelism, freemem, totalmem } from "node:os";
import colors from "picocolors";
import { MgrpoError } from "../core/errors.ts";
import { type Check, checkEmbeddedCloud, checkEndpoints, checkEngines, checkProvider } from "./local/checks.ts";
import { installCuda } from "./local/install-cuda.ts";
import { checkModel } from "./local/model-checks.ts";
import { checkRunsFolder } from "./local/run-folder.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { describe } from "./terminal/fail.ts";
import { flowWords, terminalWidth } from "./terminal/flow.ts";

const GIGABYTE = 1e9;
/** What a default run takes at its peak, rounded up (bench/run-memory.ts). */
const RUN_GIGABYTES = 4;
const LABEL_WIDTH = 18;
const MARKS: Record<Check["state"], string> = {
  ok: colors.green("✔"),
  missing: colors.yellow("○"),
  broken: colors.red("✘"),
};

/** Checks this machine, one model on it, or what it has just installed. */
export async function doctor({
  model,
  install,
  set,
}: {
  readonly model?: string;
  readonly install?: "cuda";
  readonly set: readonly string[];
}): Promise<void> {
  if (model === undefined && set.length > 0) {
    throw new MgrpoError("config-invalid", "--set configures the agent of --model: add --model <model>");
  }
  const checks = await checksFor(model, install, set);
  for (const check of checks) {
    if (process.stdout.isTTY) console.log(line(check));
    else console.log(JSON.stringify(check));
  }
  if (checks.some(({ state }) => state === "broken")) process.exitCode = 1;
}

async function checksFor(model: string | undefined, install: "cuda" | undefined, set: readonly string[]) {
  if (install !== undefined) {
    await installCuda();
    return [await checkProvider(install)];
  }
  return model === undefined ? checkMachine() : checkModel(model, set);
}

async function checkMachine(): Promise<Check[]> {
  const endpoints = await checkEndpoints();
  return [...checkHost(), ...(await checkEmbeddedCloud()), ...(await checkEngines()), ...endpoints];
}

/** `found` is cleaned: it may quote a model's chat template or a server. */
function line({ state, name, found, advice }: Check): string {
  const width = terminalWidth();
  const result = `  ${MARKS[state]} ${name.padEnd(LABEL_WIDTH)}${flowWords(stripControlCharacters(found), LABEL_WIDTH + 4, width)}`;
  if (advice === undefined) return result;
  return `${result}\n${" ".repeat(LABEL_WIDTH + 4)}${flowWords(advice, LABEL_WIDTH + 4, width, colors.dim)}`;
}

function checkHost(): Check[] {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const cores = availableParallelism();
  return [
    check(
      "Node.js",
      process.version,
      major > 20 || (major === 20 && minor >= 20),
      "mgrpo needs Node.js 20.20 or newer",
    ),
    check(
      "cores",
      String(cores),
      cores >= 2,
      "two agents overlap on two cores; on one a run takes twice as long",
      "missing",
    ),
    check(
      "memory",
      `${gigabytes(freemem())} free of ${gigabytes(totalmem())}`,
      freemem() > RUN_GIGABYTES * GIGABYTE,
      `a default run takes up to ${RUN_GIGABYTES} GB`,
      "missing",
    ),
    checkDisk(),
  ];
}

/** Checks the runs folder as preflight does, then the free space. */
function checkDisk(): Check {
  const advice = "a run keeps its checkpoints and rollouts under runs/";
  try {
    checkRunsFolder();
  } catch (error) {
    return check("disk", describe(error), false, advice);
  }
  const disk = statfsSync(".");
  const free = (disk.bavail * disk.bsize) / GIGABYTE;
  return check("disk", `${free.toFixed(1)} GB free here`, free > 2, `more than 2 GB should be free: ${advice}`);
}

function gigabytes(bytes: number): string {
  return `${(bytes / GIGABYTE).toFixed(1)} GB`;
}

function check(name: string, found: string, ok: boolean, advice: string, otherwise: Check["state"] = "broken"): Check {
  return ok ? { name, found, state: "ok" } : { name, found, state: otherwise, advice };
}
