/**
 * @file The memory that a worker needs to sample from a model and train it: for one model, part by part, and for a whole team before it
 * trains (preflight). Also counts a model's parameters. Of the weights, only headers are read.
 */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { EngineConfig } from "../../core/contracts/engine.ts";
import type { LoraConfig } from "../../core/contracts/lora.ts";
import { agentsOfPolicy, policySettings } from "../../core/contracts/shared-policy.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { sum } from "../../core/statistics.ts";
import { adapterLayout, readAdapterConfig } from "../../engine/checkpoint/adapter.ts";
import { readModelConfig } from "../../engine/checkpoint/config.ts";
import { parameterLayout } from "../../engine/checkpoint/parameters.ts";
import { refuseUnsavable } from "../../engine/checkpoint/shards.ts";
import {
  type MemoryPlan,
  type MemoryUse,
  mappedBytes,
  type ProcessMemory,
  planMemory,
  planSampling,
  totalBytes,
  totalOfProcesses,
} from "../../engine/compiled/memory.ts";
import { mappedFiles, type StoredWeights, storedWeights } from "../../engine/compiled/open-weights.ts";
import { checkQuantization } from "../../engine/compiled/quantization/check.ts";
import { machineBytes, useSpareMemory } from "../../engine/compiled/spare-memory.ts";
import { engineOptions } from "../../gpu-workers/engine-options.ts";
import { counted } from "../terminal/columns.ts";
import type { Bases } from "./base-models.ts";
import type { Check } from "./checks.ts";
import { Findings } from "./findings.ts";

const GIGABYTE = 1e9;
const ADVICE: Readonly<Record<keyof MemoryPlan, string>> = {
  program: "a machine with more memory",
  weights: "a smaller model",
  packed: "engine.weightPacking=off",
  adapter: "a lower lora.rank, or fewer lora.targets",
  optimizer: "an adapter in place of all weights (lora={})",
  activations: "a lower engine.microBatchTokens or limits.contextTokens",
  kept: "engine.gradientCheckpointing=on",
  trees: "engine.prefixTrees=false, or a lower engine.microBatchTokens",
  cache: "a lower engine.slots or limits.contextTokens",
  saving: "an adapter in place of all weights (lora={})",
};

/** What makes a part smaller. With an adapter, the optimizer state and what is saved grow with it. */
const adviceOn = (part: keyof MemoryPlan, lora: LoraConfig | null): string =>
  ADVICE[lora && (part === "optimizer" || part === "saving") ? "adapter" : part];

/** Part by part, then the sum: of sampling alone if the agent is frozen. */
export function memoryChecks(agent: AgentConfig, files: CheckpointFiles, stored: StoredWeights): Check[] {
  const { mapped } = stored;
  const { plan: training, sampling, lora } = needsOf(agent, files, {}, stored);
  const plan = agent.trained ? training : sampling;
  const parts = Object.entries(plan).filter(([, bytes]) => bytes > 0);
  return [
    ...parts.map(([name, bytes]): Check => {
      const note = lora ? noteOn(name, mapped, agent.engine) : "";
      return { name: `  ${name}`, state: "ok", found: `${gigabytes(bytes)}${note}` };
    }),
    memoryCheck(plan, lora),
  ];
}

function noteOn(
  part: string,
  mapped: boolean,
  { weightPacking, quantization, gradientCheckpointing }: EngineConfig,
): string {
  if (part === "weights" && quantization !== "none") return `, linear layers in ${quantization}`;
  if (part === "weights" && mapped) return ", mapped from disk";
  if (part === "kept") return `, engine.gradientCheckpointing ${gradientCheckpointing}`;
  return part === "packed" ? `, engine.weightPacking ${weightPacking}` : "";
}

function memoryCheck(plan: MemoryPlan, lora: LoraConfig | null): Check {
  const total = totalBytes(plan);
  const available = process.availableMemory();
  const found = `about ${gigabytes(total)} needed, ${gigabytes(available)} available`;
  if (total <= available) return { name: "memory", state: "ok", found };
  const largest = largestPart(plan);
  const advice = `the largest part is ${largest}: ${adviceOn(largest, lora)}`;
  return { name: "memory", state: "broken", found, advice };
}

const gigabytes = (bytes: number) => `${(bytes / GIGABYTE).toFixed(bytes < GIGABYTE / 10 ? 3 : 1)} GB`;

export interface MachineMemory {
  readonly total: number;
  /** Memory that other programs leave free. */
  readonly available: number;
}

/**
 * Detects a team too large for this machine. It adds up the agents' workers and the evaluation workers, since all of them run at the same time,
 * each in a process of its own; an evaluation worker has all agents. Only agents with policy `compiled` are counted. A base that several
 * processes map counts once. It refuses a team if the agents' workers alone need more than the machine has, and otherwise only warns: an
 * evaluation may end before training needs the most.
 */
export function checkMemory(
  { agents, algorithm, staleness, evaluation }: RunConfig,
  bases: Bases,
  findings: Findings,
  memory: MachineMemory = { total: machineBytes(), available: process.availableMemory() },
): void {
  const use = { reference: algorithm.kl.coefficient > 0, staleness };
  const needs = Object.keys(agents).flatMap((name) => {
    const agent = policySettings(agents, name);
    const files = bases.get(name);
    if (!files || agent.policy !== "compiled") return [];
    return admitted(findings, name, () => agentNeeds(name, agent, files, use));
  });
  const workers = needs.flatMap((need) => processesOf(need, agents));
  const training = totalOfProcesses(workers);
  const evaluators = evaluation.suites.length > 0 ? evaluation.workers : 0;
  warnOfDedicated(agents, workers.length, evaluators, findings);
  // A process that serves all agents loads the program once.
  const ofOneProcess = needs.map(({ sampling: { plan, mapped } }, i) => ({
    plan: i === 0 ? plan : { ...plan, program: 0 },
    mapped,
  }));
  const evaluating = Array.from({ length: evaluators }, () => ofOneProcess).flat();
  const needed = totalOfProcesses([...workers, ...evaluating]);
  const [most] = needs.sort((a, b) => totalBytes(b.plan) - totalBytes(a.plan));
  if (!most || needed <= memory.available) return;
  const largest = largestPart(most.plan);
  const isTooMuch = training > memory.total;
  const limit = isTooMuch ? `the machine has ${gigabytes(memory.total)}` : `${gigabytes(memory.available)} is free`;
  const part = needed > training ? `, ${gigabytes(needed - training)} for evaluations,` : "";
  const message =
    `agents.${most.name}.model: this team needs about ${gigabytes(needed)} of memory${part} and ${limit}; ` +
    `'${most.name}' needs the most, and its largest part is ${largest}, ${gigabytes(most.plan[largest])}: ${adviceOn(largest, most.lora)}`;
  if (isTooMuch) findings.refuse(new MgrpoError("config-invalid", message));
  else findings.warn(message);
}

/**
 * Warns of `engine.dedicated` if the run has several workers on this machine: with it, they wait for each other's spinning threads, and
 * together plan with more memory than there is.
 */
function warnOfDedicated(agents: RunConfig["agents"], workers: number, evaluators: number, findings: Findings): void {
  if (workers + evaluators <= 1) return;
  const evaluations = evaluators > 0 ? ` and ${counted(evaluators, "evaluation worker")}` : "";
  for (const [name, { engine }] of Object.entries(agents)) {
    if (!engine.dedicated) continue;
    const found = `the run has ${counted(workers, "agent worker")}${evaluations} on this machine`;
    findings.warn(`agents.${name}.engine.dedicated: ${found}: set it to false, or train on several machines`);
  }
}

/**
 * The workers that have a policy: one trains it, if it is trained. The owner's other workers, and those of the agents that share it, only
 * sample.
 */
function processesOf(need: ReturnType<typeof agentNeeds>, agents: RunConfig["agents"]): ProcessMemory[] {
  const count = sum(agentsOfPolicy(agents, need.name).map((name) => agents[name]?.workers ?? 0));
  return [need, ...Array.from({ length: count - 1 }, () => need.sampling)];
}

/** What the worker of a policy's owner needs, and what the policy adds to a process that only samples from it. */
function agentNeeds(name: string, agent: AgentConfig, files: CheckpointFiles, use: MemoryUse) {
  const config = readModelConfig(files);
  const { plan, sampling, mapped: bytes, lora } = needsOf(agent, files, use);
  if (agent.trained) refuseUnsavable(lora ? adapterLayout(config, lora) : parameterLayout(config), lora);
  const mapped = { files: mappedFiles(files, config), bytes };
  return { name, lora, mapped, plan: agent.trained ? plan : sampling, sampling: { plan: sampling, mapped } };
}

/** Refuses settings of the compiled engine with which it could not train this model, such as quantization without an adapter. */
export function refuseUntrainable(name: string, agent: AgentConfig, files: CheckpointFiles): void {
  const findings = new Findings();
  if (agent.policy === "compiled")
    admitted(findings, name, () => agentNeeds(name, { ...agent, trained: true }, files, {}));
  findings.reportAndThrow();
}

/** What `read` returns; if it rejects the model, nothing, and its error is added to the findings under the agent's name. */
function admitted<T>(findings: Findings, name: string, read: () => T): T[] {
  try {
    return [read()];
  } catch (error) {
    if (!isMgrpoError(error)) throw error;
    findings.refuse(new MgrpoError(error.code, `agents.${name}.model: ${error.message}`, { cause: error }));
    return [];
  }
}

/** The model's number of parameters; undefined if the weights are not in files that this program reads. */
export function parameterCount({ policy }: AgentConfig, files: CheckpointFiles): number | undefined {
  return policy === "compiled" || policy.startsWith("eager")
    ? parameterLayout(readModelConfig(files)).length
    : undefined;
}

function needsOf(
  agent: AgentConfig,
  files: CheckpointFiles,
  use: MemoryUse = {},
  stored: StoredWeights = storedWeights(files, readModelConfig(files)),
) {
  const config = readModelConfig(files);
  const lora = agent.lora ?? readAdapterConfig(files)?.lora ?? null;
  const options = engineOptions(agent);
  checkQuantization(config, lora, options, stored);
  const resolved = { ...options, ...useSpareMemory(config, lora, options, stored) };
  return {
    plan: planMemory(config, lora, resolved, stored, use),
    sampling: planSampling(config, lora, resolved, stored),
    mapped: mappedBytes(config, lora, options, stored),
    lora,
  };
}

const largestPart = (plan: MemoryPlan): keyof MemoryPlan =>
  (Object.keys(plan) as (keyof MemoryPlan)[]).reduce((a, b) => (plan[b] > plan[a] ? b : a));
