/**
 * @file What sampling from a model and training it in one worker takes in memory: part by part against what is free (`mgrpo doctor --model`),
 * and of a whole team against what the machine has, before it is trained. Only headers of files are read.
 */
import { totalmem } from "node:os";
import { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { parse } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { withSettings } from "../../core/training/resolve-config.ts";
import { readAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { checkContext, readModelConfig } from "../../engine/checkpoint/config.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { locateParameters } from "../../engine/checkpoint/weights.ts";
import { type MemoryPlan, planMemory, totalBytes } from "../../engine/compiled/memory.ts";
import { isMemoryMapped } from "../../engine/compiled/open-weights.ts";
import { engineOptions } from "../../gpu-workers/policy.ts";
import type { Check } from "./checks.ts";
import { type Bases, readModel } from "./prepare.ts";

const GIGABYTE = 1e9;
const ADVICE: Readonly<Record<keyof MemoryPlan, string>> = {
  program: "a machine with more memory",
  weights: "a smaller model",
  adapter: "a lower lora.rank, or fewer lora.targets",
  optimizer: "an adapter in place of all weights (lora={})",
  activations: "a lower engine.microBatchTokens or limits.contextTokens",
  cache: "a lower engine.slots or limits.contextTokens",
  saving: "an adapter in place of all weights (lora={})",
};

/** `settings` are of the agent that would have this model, as `lora.rank=8`. */
export async function checkModel(model: string, settings: readonly string[]): Promise<Check[]> {
  const agent = parse(AgentConfig, withSettings({ model }, settings), "--set", "config-invalid");
  const files = await readModel(model, "--model");
  checkContext(files, agent.limits.contextTokens);
  const { plan, lora, parameters, mapped } = needsOf(agent, files, false);
  const total = totalBytes(plan);
  const available = process.availableMemory();
  const largest = largestPart(plan);
  const fits = total <= available;
  const trained = lora ? `an adapter of rank ${lora.rank}` : "all weights";
  return [
    {
      name: "model",
      state: "ok",
      found: `${(parameters / 1e6).toFixed(0)} million parameters; trained: ${trained}`,
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
      ...(!fits && { advice: `most of it is ${largest}: ${ADVICE[largest]}` }),
    },
  ];
}

const gigabytes = (bytes: number) => `${(bytes / GIGABYTE).toFixed(bytes < GIGABYTE / 10 ? 3 : 1)} GB`;

/** Refuses a team that this machine could not hold, all trained agents together. */
export function refuseUnfit({ agents, algorithm }: RunConfig, bases: Bases, available = totalmem()): void {
  const plans = Object.entries(agents).flatMap(([name, agent]) => {
    const files = bases.get(name);
    return files && agent.trained && agent.policy === "compiled"
      ? [{ name, ...needsOf(agent, files, algorithm.kl.coefficient > 0) }]
      : [];
  });
  const total = plans.reduce((sum, { plan }) => sum + totalBytes(plan), 0);
  const [most] = plans.sort((a, b) => totalBytes(b.plan) - totalBytes(a.plan));
  if (!most || total <= available) return;
  const largest = largestPart(most.plan);
  throw new MgrpoError(
    "config-invalid",
    `agents.${most.name}.model: this team needs about ${gigabytes(total)} of memory and the machine has ${gigabytes(available)}; ` +
      `most of it is the ${largest} of '${most.name}', ${gigabytes(most.plan[largest])}: ${ADVICE[largest]}`,
  );
}

function needsOf(agent: AgentConfig, files: CheckpointFiles, reference: boolean) {
  const config = readModelConfig(files);
  const layout = parameterLayout(config);
  const places = [...locateParameters(files, config, layout).values()];
  const mapped = places.every(isMemoryMapped);
  const bytes = places.reduce((sum, { entry }) => sum + entry.end - entry.begin, 0);
  const lora = agent.lora ?? readAdapterConfig(files)?.lora ?? null;
  const plan = planMemory(config, lora, engineOptions(agent), { mapped, bytes }, reference);
  return { plan, lora, parameters: layout.length, mapped };
}

const largestPart = (plan: MemoryPlan): keyof MemoryPlan =>
  (Object.keys(plan) as (keyof MemoryPlan)[]).reduce((a, b) => (plan[b] > plan[a] ? b : a));
