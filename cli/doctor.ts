/**
 * @file `mgrpo doctor`: what is installed and works here, and how to get what does not. Exit 1 only when a default
 * run could not work, or the model that was asked about would not fit.
 */
import { statfsSync } from "node:fs";
import { availableParallelism, freemem, totalmem } from "node:os";
import colors from "picocolors";
import { MgrpoError } from "../core/errors.ts";
import { type Check, checkEndpoints, checkEngines, checkLocalCloud, checkProvider } from "./local/checks.ts";
import { installCuda } from "./local/install-cuda.ts";
import { checkModel } from "./local/model-needs.ts";

const GIGABYTE = 2 ** 30;
const MARKS: Record<Check["state"], string> = {
  ok: colors.green("✔"),
  missing: colors.yellow("○"),
  broken: colors.red("✘"),
};

/** Of this machine, of one model on it, or of what was just installed. */
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
    throw new MgrpoError("config-invalid", "--set is of the agent that has --model: name one");
  }
  if (install !== undefined) await installCuda();
  const checks =
    install !== undefined
      ? [await checkProvider(install)]
      : model === undefined
        ? await checkMachine()
        : await checkModel(model, set);
  for (const check of checks) {
    if (process.stdout.isTTY) console.log(line(check));
    else console.log(JSON.stringify(check));
  }
  if (checks.some(({ state }) => state === "broken")) process.exitCode = 1;
}

async function checkMachine(): Promise<Check[]> {
  // First: the embedded cloud puts its own endpoints into the environment.
  const endpoints = await checkEndpoints();
  return [...machine(), ...(await checkLocalCloud()), ...(await checkEngines()), ...endpoints];
}

function line({ state, name, found, advice }: Check): string {
  return `  ${MARKS[state]} ${name.padEnd(22)}${found}${advice === undefined ? "" : `\n    ${" ".repeat(22)}${colors.dim(advice)}`}`;
}

function machine(): Check[] {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const cores = availableParallelism();
  const disk = statfsSync(".");
  const free = (disk.bavail * disk.bsize) / GIGABYTE;
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
      freemem() > 3 * GIGABYTE,
      "a default run takes up to 4 GB",
      "missing",
    ),
    check("disk", `${free.toFixed(1)} GB free here`, free > 2, "a run keeps its checkpoints and rollouts under runs/"),
  ];
}

function gigabytes(bytes: number): string {
  return `${(bytes / GIGABYTE).toFixed(1)} GB`;
}

function check(name: string, found: string, ok: boolean, advice: string, otherwise: Check["state"] = "broken"): Check {
  return ok ? { name, found, state: "ok" } : { name, found, state: otherwise, advice };
}
