/** @file How the agents that share a policy train it in a step: the settings of each, and its share of the policy's loss. */
import { algorithmOf } from "../../core/contracts/algorithm-overrides.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { StepRecord } from "../../core/contracts/records.ts";
import { policySettings, sharesOf } from "../../core/contracts/shared-policy.ts";
import { entropyCoefficientAt } from "../../core/training/entropy-schedule.ts";
import { optimizerAt } from "../../core/training/learning-rate.ts";
import { runShareAt } from "../../core/training/progress.ts";
import type { TrainStepConfig } from "./objective-passes.ts";
import type { TrainedAgent } from "./step-state.ts";

/** @param owner the agent that owns the policy. */
export function agentsOfStep(run: RunConfig, owner: string, step: StepRecord): TrainedAgent[] {
  return [...sharesOf(run.agents, owner)].map(([agent, share]) => ({
    agent,
    share,
    config: stepConfig(run, agent, step),
  }));
}

function stepConfig(run: RunConfig, agent: string, step: StepRecord): TrainStepConfig {
  const { seed, agents } = run;
  const { optimizer } = policySettings(agents, agent);
  const temperature = agents[agent]?.temperature ?? run.temperature;
  const algorithm = algorithmOf(run, agent);
  const minibatchStream = [seed, "minibatches", step.step, agent];
  const progress = runShareAt(run, step);
  const entropyCoefficient = entropyCoefficientAt(algorithm.entropy, progress);
  return {
    algorithm,
    optimizer: optimizerAt(optimizer, progress, run.steps),
    entropyCoefficient,
    temperature,
    minibatchStream,
  };
}
