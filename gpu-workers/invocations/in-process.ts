/** @file Delegation within one process that hosts the whole team. Evaluation uses it. */
import { MgrpoError } from "../../core/errors.ts";
import type { Delegation } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import type { Agent } from "../rollouts/agent.ts";
import type { Run } from "../run.ts";
import { runInvocation } from "./run-invocation.ts";

export function inProcessDelegation(run: Run, agents: ReadonlyMap<string, Agent>, purpose: StreamName): Delegation {
  return {
    async invoke(id, request, signal) {
      const agent = agents.get(request.agent);
      if (!agent) throw new MgrpoError("config-invalid", `this process does not host agent '${request.agent}'`);
      return runInvocation(run, agent, id, request, { purpose }, signal);
    },
  };
}
