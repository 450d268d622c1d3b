/** @file Delegation within one process that hosts the whole team (gateway/whole-team.ts). */
import { MgrpoError } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import type { HostedAgent } from "../rollouts/agent.ts";
import type { RunContext } from "../run-context.ts";
import { runInvocation } from "./run-invocation.ts";

export function inProcessDelegation(
  run: RunContext,
  agents: ReadonlyMap<string, HostedAgent>,
  purpose: StreamName,
): Delegation {
  const delegation: Delegation = {
    async invoke(id, request, signal) {
      const agent = agents.get(request.agent);
      if (!agent) throw new MgrpoError("config-invalid", `this process does not host agent '${request.agent}'`);
      return runInvocation(run, agent, id, request, { purpose, delegation }, signal);
    },
  };
  return delegation;
}
