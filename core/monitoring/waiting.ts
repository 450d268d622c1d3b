/** @file What a run is doing or waiting for, in one phrase: the missing workers, or the progress of the open step. Pure. */
import type { RunConfig } from "../contracts/config.ts";
import type { AgentRecord, GroupRecord, StepRecord, WorkerRecord, WorkerRole } from "../contracts/records.ts";

export interface RunState {
  readonly step: StepRecord | undefined;
  readonly groups: readonly GroupRecord[];
  readonly agents: readonly AgentRecord[];
  readonly workers: readonly WorkerRecord[];
}

export function waitingFor(config: RunConfig, { step, groups, agents, workers }: RunState): string {
  if (!step) return "planning the first step";
  const behind = step.trained.filter(
    (name) => (agents.find(({ agent }) => agent === name)?.version ?? 0) <= (step.policy[name] ?? 0),
  );
  const needed: [string, WorkerRole][] =
    step.state === "open"
      ? Object.keys(config.agents).map((name) => [name, "rollout"])
      : behind.map((name) => [name, "train"]);
  const missing = needed.filter(
    ([name, role]) =>
      !workers.some(({ agent, roles, state }) => agent === name && state === "alive" && roles.includes(role)),
  );
  if (missing.length > 0) return `waiting for: ${missing.map(([name, role]) => `${name}/${role}`).join(", ")}`;
  if (step.state === "open") {
    const scored = groups.reduce((total, { rollouts }) => total + Object.keys(rollouts).length, 0);
    return `rollouts ${scored}/${step.groups.length * config.rolloutsPerQuestion}`;
  }
  return behind.length > 0 ? `training ${behind.join(", ")}` : "closing the step";
}
