/** @file How each agent of a rollout samples: as the rollout's plan says, at the agent's own temperature if the plan has one. */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Sampling } from "../../core/contracts/rollout.ts";

/** The part of a rollout's plan that decides how agents sample. */
export interface SamplingPlan {
  readonly sampling: Sampling;
  /** Agent -> its own temperature. Absent: all agents use that of `sampling`, as in evaluations. */
  readonly temperatures?: Readonly<Record<string, number>>;
}

export function trainingSampling({ temperature, agents }: Pick<RunConfig, "temperature" | "agents">): SamplingPlan {
  return { sampling: { temperature, topP: 1, topK: 0 }, temperatures: ownTemperatures(agents) };
}

export function samplingOf({ sampling, temperatures = {} }: SamplingPlan, agent: string): Sampling {
  return { ...sampling, temperature: temperatures[agent] ?? sampling.temperature };
}

function ownTemperatures(agents: Readonly<Record<string, Pick<AgentConfig, "temperature">>>): Record<string, number> {
  const entries = Object.entries(agents);
  return Object.fromEntries(entries.flatMap(([name, { temperature }]) => (temperature ? [[name, temperature]] : [])));
}
