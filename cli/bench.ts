/** @file `mgrpo bench`: runs the benchmarks one after another, each in its own process. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { MgrpoError } from "../core/errors.ts";
import { nodeArguments } from "./local/workers.ts";
import { didYouMean } from "./terminal/nearest.ts";

const DEFAULT = [
  "engine",
  "rollouts",
  "gateway",
  "gateway-load",
  "store",
  "ui",
  "bundles",
  "run",
  "lora",
  "sampling",
  "trees",
  "memory",
  "run-memory",
];
/**
 * Those not in DEFAULT run only when named: `gpu` needs a GPU, and `create` the npm registry; `pipeline` takes half an hour; `alignment`
 * measures an algorithm, and `power` comparisons, rather than this machine; `peers` needs other projects installed (bench/peers/README.md).
 */
const ALL = [...DEFAULT, "gpu", "create", "pipeline", "alignment", "power", "peers"];

export async function bench(names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => !ALL.includes(name));
  if (unknown !== undefined) {
    const nearest = didYouMean(unknown, ALL);
    throw new MgrpoError("not-found", `no benchmark '${unknown}': name one of ${ALL.join(", ")}${nearest}`);
  }
  for (const name of names.length > 0 ? names : DEFAULT) {
    const child = spawn(process.execPath, nodeArguments(`bench/${name}`), { stdio: "inherit" });
    const [code, killed] = await once(child, "exit");
    if (code === 0) continue;
    const how = killed ? `was killed by ${killed}` : `ended with exit code ${code}`;
    throw new MgrpoError("process-failed", `benchmark '${name}' ${how}`);
  }
}
