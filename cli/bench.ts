/** @file `mgrpo bench`: runs the measurements one after another, each in a process of its own; they print one JSON object per line. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { MgrpoError } from "../core/errors.ts";
import { nodeArguments } from "./local/workers.ts";

const BENCHES = ["engine", "rollouts", "store", "bundles", "run", "lora", "memory", "run-memory"];
/** Only where it is named. */
const OF_A_GPU = "gpu";

export async function bench(names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => ![...BENCHES, OF_A_GPU].includes(name));
  if (unknown !== undefined) {
    throw new MgrpoError("not-found", `no bench '${unknown}': there are ${[...BENCHES, OF_A_GPU].join(", ")}`);
  }
  for (const name of names.length > 0 ? names : BENCHES) {
    const child = spawn(process.execPath, nodeArguments(`bench/${name}`), { stdio: "inherit" });
    const [code] = await once(child, "exit");
    if (code !== 0) throw new MgrpoError("cancelled", `bench '${name}' ended with exit code ${code}`);
  }
}
