/** @file engine.gpu.*: engine.train and engine.sample on every GPU provider that works on this machine, and on the CPU for comparison. */
import type { ExecutionProvider } from "../core/contracts/engine.ts";
import { isMgrpoError } from "../core/errors.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { TINY_OPTIONS } from "../engine/compiled/provider-check.ts";
import { engineSample, engineTrain } from "./engine.ts";

const REPEATS = 3;

/** The GPU providers that work on this machine. */
const available: ExecutionProvider[] = [];
/** Why the others do not. */
const reasons: string[] = [];
for (const provider of ["webgpu", "cuda"] as const) {
  try {
    await compiledEngine.computesOn?.({ ...TINY_OPTIONS, provider });
    available.push(provider);
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    reasons.push(error.message);
  }
}
if (available.length === 0) {
  console.error(reasons.join("\n"));
  process.exit(1);
}
for (const provider of [...available, "cpu"] as const) {
  for (const measure of [engineTrain, engineSample]) {
    const { name, config, ...figure } = await measure(REPEATS, provider);
    const gpuName = name.replace("engine.", "engine.gpu.");
    console.log(JSON.stringify({ name: gpuName, ...figure, config: { provider, ...config } }));
  }
}
