/** @file What a run is doing or waiting for, in one phrase: the missing workers, or the progress of the step. Pure. */
import type { RunConfig } from "../contracts/config.ts";
import { agentsBehind, hasWorker, neededRoles } from "./causes.ts";
import type { RunState } from "./run-state.ts";

export function waitingFor(config: RunConfig, state: RunState): string {
  const { step, groups, agents } = state;
  if (!step) return "planning the next step";
  const missing = neededRoles(config, state, step).filter(([agent, role]) => !hasWorker(state, agent, role));
  if (missing.length > 0) return `waiting for: ${missing.map(([name, role]) => `${name}/${role}`).join(", ")}`;
  if (step.state === "open") {
    const scored = groups.reduce((total, { rollouts }) => total + Object.keys(rollouts).length, 0);
    return `rollouts ${scored}/${step.groups.length * config.rolloutsPerQuestion}`;
  }
  const late = agentsBehind(step, agents);
  return late.length > 0 ? `training ${late.join(", ")}` : "closing the step";
}
