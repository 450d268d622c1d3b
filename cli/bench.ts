/** @file `mgrpo bench`: runs the benchmarks one after another, each in its own process. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { MgrpoError } from "../core/errors.ts";
import { DEFAULT_BENCHMARKS, OTHER_BENCHMARKS } from "./benchmarks.ts";
import { nodeArguments } from "./local/workers.ts";
import { didYouMean } from "./terminal/nearest.ts";

const ALL = [...DEFAULT_BENCHMARKS, ...OTHER_BENCHMARKS];

export async function bench(names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => !ALL.includes(name));
  if (unknown !== undefined) {
    const nearest = didYouMean(unknown, ALL);
    throw new MgrpoError("not-found", `no benchmark '${unknown}': name one of ${ALL.join(", ")}${nearest}`);
  }
  for (const name of names.length > 0 ? names : DEFAULT_BENCHMARKS) {
    const child = spawn(process.execPath, nodeArguments(`bench/${name}`), { stdio: "inherit" });
    const [code, killed] = await once(child, "exit");
    if (code === 0) continue;
    const how = killed ? `was killed by ${killed}` : `ended with exit code ${code}`;
    throw new MgrpoError("process-failed", `benchmark '${name}' ${how}`);
  }
}
