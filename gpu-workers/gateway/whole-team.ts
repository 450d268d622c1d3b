/** @file Rollouts of a team whose agents are all in this process: evaluation, and the commands `ask` and `dev`. */
import { MgrpoError } from "../../core/errors.ts";
import type { StreamName } from "../../core/random.ts";
import { inProcessDelegation } from "../invocations/in-process.ts";
import type { HostedAgent } from "../rollouts/agent.ts";
import type { RolloutHost } from "../rollouts/attempt-rollout.ts";
import { nativeAttempts } from "../rollouts/native-attempt.ts";
import type { RunContext } from "../run-context.ts";
import { AgentSessions } from "./agent-sessions.ts";
import { appAttempts } from "./app-rollout.ts";
import type { AppTeam } from "./attempt.ts";
import { type AppParts, maxConversations } from "./gateway-service.ts";
import { observedSessions } from "./observed-sessions.ts";
import { localSubAgent } from "./sub-agents.ts";

export interface WholeTeam extends RolloutHost {
  readonly main: HostedAgent;
}

/**
 * @param purpose prefix of the names of the random streams.
 * @param app runs the rollouts through an app; undefined: this program runs them.
 */
export function wholeTeam(
  run: RunContext,
  agents: ReadonlyMap<string, HostedAgent>,
  purpose: StreamName,
  app: AppParts | undefined,
): WholeTeam {
  const main = agents.get(run.config.main);
  if (!main)
    throw new MgrpoError(
      "config-invalid",
      `main agent '${run.config.main}' is not open in this process: open every agent of the team`,
    );
  const runAttempt = app
    ? appAttempts({ ...app, team: appTeam(run, agents, main, purpose) })
    : nativeAttempts({ run, main, delegation: inProcessDelegation(run, agents, purpose) });
  return { run, main, runAttempt, hasLiveSubAgents: () => true, deadSubAgents: () => [] };
}

function appTeam(
  run: RunContext,
  agents: ReadonlyMap<string, HostedAgent>,
  main: HostedAgent,
  purpose: StreamName,
): AppTeam {
  const sessionsOf = (agent: HostedAgent) =>
    observedSessions(new AgentSessions(agent, purpose, maxConversations(run.config), 0), agent, agent === main);
  const subs = [...agents.values()].filter((agent) => agent !== main);
  return {
    main: { name: main.name, sessions: sessionsOf(main) },
    subs: new Map(subs.map((agent) => [agent.name, localSubAgent(run, sessionsOf(agent))])),
  };
}
