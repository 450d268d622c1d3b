/**
 * @file `mgrpo doctor --model`: what sampling from a model and training it in one worker takes in memory, part by part, against what is
 * free. Only headers of its files are read.
 */
import { AgentConfig } from "../../core/contracts/config.ts";
import { parse } from "../../core/contracts/parse.ts";
import { withSettings } from "../../core/training/resolve.ts";
import { readAdapterConfig } from "../../gpu-workers/engines/checkpoint/adapter.ts";
import { checkContext, readModelConfig } from "../../gpu-workers/engines/checkpoint/config.ts";
import { parameterLayout } from "../../gpu-workers/engines/checkpoint/parameters.ts";
import { locateParameters } from "../../gpu-workers/engines/checkpoint/weights.ts";
import { type MemoryPlan, planMemory, totalBytes } from "../../gpu-workers/engines/compiled/memory.ts";
import { isMapped } from "../../gpu-workers/engines/compiled/weights.ts";
import { engineOptions } from "../../gpu-workers/policy.ts";
import type { Check } from "./checks.ts";
import { readModel } from "./prepare.ts";

const GIGABYTE = 1e9;
const ADVICE: Readonly<Record<keyof MemoryPlan, string>> = {
  program: "a machine with more memory",
  weights: "a smaller model",
  adapter: "a lower lora.rank, or fewer lora.targets",
  optimizer: "--set lora={}: an adapter in place of all weights",
  activations: "a lower engine.microBatchTokens or limits.contextTokens",
  cache: "a lower engine.slots or limits.contextTokens",
  saving: "--set lora={}: an adapter in place of all weights",
};

/** `settings` are of the agent that would have this model, as `lora.rank=8`. */
export async function checkModel(model: string, settings: readonly string[]): Promise<Check[]> {
  const agent = parse(AgentConfig, withSettings({ model }, settings), "--set", "config-invalid");
  const files = await readModel(model, "--model");
  checkContext(files, agent.limits.contextTokens);
  const config = readModelConfig(files);
  const layout = parameterLayout(config);
  const places = [...locateParameters(files, config, layout).values()];
  const mapped = places.every(isMapped);
  const bytes = places.reduce((sum, { entry }) => sum + entry.end - entry.begin, 0);
  const lora = agent.lora ?? readAdapterConfig(files)?.lora ?? null;
  const plan = planMemory(config, lora, engineOptions(agent), { mapped, bytes });
  const total = totalBytes(plan);
  const available = process.availableMemory();
  const [largest] = (Object.keys(plan) as (keyof MemoryPlan)[]).sort((a, b) => plan[b] - plan[a]);
  const fits = total <= available;
  const trained = lora ? `an adapter of rank ${lora.rank}` : "all weights";
  return [
    {
      name: "model",
      state: "ok",
      found: `${(layout.length / 1e6).toFixed(0)} million parameters; trained: ${trained}`,
    },
    ...Object.entries(plan).flatMap(([name, bytes]): Check[] =>
      bytes === 0
        ? []
        : [
            {
              name: `  ${name}`,
              state: "ok",
              found: `${gigabytes(bytes)}${name === "weights" && mapped && lora ? ", mapped from disk" : ""}`,
            },
          ],
    ),
    {
      name: "memory",
      state: fits ? "ok" : "broken",
      found: `about ${gigabytes(total)} needed, ${gigabytes(available)} available`,
      ...(!fits && largest && { advice: `most of it is ${largest}: ${ADVICE[largest]}` }),
    },
  ];
}

const gigabytes = (bytes: number) => `${(bytes / GIGABYTE).toFixed(bytes < GIGABYTE / 10 ? 3 : 1)} GB`;
