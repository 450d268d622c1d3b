/** @file The options with which an engine opens an agent's samplers and trainers. */
import type { AgentConfig } from "../core/contracts/agent-config.ts";
import type { EngineLimits, EngineOptions } from "../core/ports.ts";

/** The engine's part of an agent's config, with the run's time limits on its calls if given. */
export function engineOptions({ engine, limits, optimizer }: AgentConfig, run?: EngineLimits): EngineOptions {
  const serverOptimizer = optimizer.kind === "server" && { serverOptimizer: true };
  const options = { ...engine, ...serverOptimizer, contextTokens: limits.contextTokens };
  return run ? { ...options, limits: { turnSeconds: run.turnSeconds, trainingSeconds: run.trainingSeconds } } : options;
}
