/** @file Rollouts of a team whose agents are all in this process: evaluation, and commands that ask a team. */
import { MgrpoError } from "../../core/errors.ts";
import type { StreamName } from "../../core/random.ts";
import { AgentSessions } from "../gateway/agent-sessions.ts";
import type { AppTeam } from "../gateway/attempt.ts";
import { type AppParts, maxConversations } from "../gateway/gateway-service.ts";
import { observedSessions } from "../gateway/observed-sessions.ts";
import { localSubAgent } from "../gateway/sub-agents.ts";
import { inProcessDelegation } from "../invocations/in-process.ts";
import type { RunContext } from "../run-context.ts";
import type { HostedAgent } from "./agent.ts";
import type { RolloutHost } from "./attempt-rollout.ts";

/**
 * @param purpose first parts of the names of random streams.
 * @param app what runs the rollouts of an app; undefined: this program does.
 */
export function wholeTeam(
  run: RunContext,
  agents: ReadonlyMap<string, HostedAgent>,
  purpose: StreamName,
  app: AppParts | undefined,
): RolloutHost {
  const main = agents.get(run.config.main);
  if (!main) throw new MgrpoError("config-invalid", `this process does not host the main agent '${run.config.main}'`);
  return {
    run,
    agent: main,
    delegation: inProcessDelegation(run, agents, purpose),
    hasLiveSubAgents: () => true,
    ...(app && { app: { ...app, team: appTeam(run, agents, main, purpose) } }),
  };
}

function appTeam(
  run: RunContext,
  agents: ReadonlyMap<string, HostedAgent>,
  main: HostedAgent,
  purpose: StreamName,
): AppTeam {
  const sessionsOf = (agent: HostedAgent) =>
    observedSessions(new AgentSessions(agent, purpose, maxConversations(run.config)), agent, agent === main);
  const subs = [...agents.values()].filter((agent) => agent !== main);
  return {
    main: { name: main.name, sessions: sessionsOf(main) },
    subs: new Map(subs.map((agent) => [agent.name, localSubAgent(run, sessionsOf(agent))])),
  };
}
