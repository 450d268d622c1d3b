/**
 * @file What a worker runs, by its agent and role. `startLoops` starts these, except where parentheses name the file that does.
 *
 *     main agent     rollout   runRollouts
 *     sub-agent      rollout   the invocation server (invocation-service.ts)
 *     any agent      train     runTraining
 *     whole team     eval      runEvaluations (serve.ts)
 *     every worker             watch.poll and writeTelemetry
 *
 * If an app runs the rollouts, the main agent's rollout workers and the eval workers also have the gateway (gateway/gateway-service.ts).
 * With the train role, a worker whose agent publishes no versions (it is frozen, or shares the policy of another) trains nothing.
 */
import type { AgentConfig } from "../core/contracts/agent-config.ts";
import { AgentSessions } from "./gateway/agent-sessions.ts";
import { type AppHost, appAttempts } from "./gateway/app-rollout.ts";
import { type GatewayService, maxConversations } from "./gateway/gateway-service.ts";
import { openRemoteWorkers, remoteSubAgent } from "./gateway/remote-sub-agent.ts";
import type { Membership } from "./liveness/membership.ts";
import type { HostedAgent } from "./rollouts/agent.ts";
import { nativeAttempts } from "./rollouts/native-attempt.ts";
import { runRollouts } from "./rollouts/rollout-loop.ts";
import type { RolloutRole } from "./rollouts/step-work.ts";
import { writeTelemetry } from "./step-telemetry.ts";
import { runTraining, type TrainRole } from "./training/train-loop.ts";
import { hasRole, type WorkerProcess } from "./worker-process.ts";

/** Starts the loops of an incarnation, except evaluation. They run until the signal aborts. */
export function startLoops(worker: WorkerProcess, membership: Membership, signal: AbortSignal): Promise<void>[] {
  const { own, watch, options, parts, isTrainer } = worker;
  const identity = { worker: membership.id, agent: options.agent };
  const loops = [watch.poll(signal), writeTelemetry(parts.run, watch, identity, worker, signal)];
  if (own && own.name === parts.run.config.main && hasRole(options, "rollout")) {
    loops.push(runRollouts(rolloutRole(worker, own, membership), signal));
  }
  if (own && isTrainer) loops.push(runTraining(trainRole(worker, own, membership.id), signal));
  return loops;
}

function rolloutRole(worker: WorkerProcess, agent: HostedAgent, membership: Membership): RolloutRole {
  const { parts, watch, delegation, observer, trajectories, gateway } = worker;
  return {
    run: parts.run,
    agent: agent.name,
    runAttempt: gateway
      ? appAttempts(appHost(worker, gateway, agent))
      : nativeAttempts({ run: parts.run, main: agent, delegation }),
    membership,
    watch,
    observer,
    trajectories,
    capacity: capacityOf(agent.config),
  };
}

/** The main agent here, its sub-agents in their workers. */
function appHost(
  { parts: { run }, options, network, observer }: WorkerProcess,
  gateway: GatewayService,
  main: HostedAgent,
): AppHost {
  const remote = openRemoteWorkers(run, observer, options.token, network);
  const { seed, staleness } = run.config;
  const sessions = new AgentSessions(main, [seed, "sample"], maxConversations(run.config), staleness);
  const subs = main.config.delegates.map((name) => [name, remoteSubAgent(remote, name)] as const);
  return { ...gateway, team: { main: { name: main.name, sessions }, subs: new Map(subs) } };
}

/** Maximum number of rollouts in flight: twice the engine's slots if the agent delegates, since a rollout that waits for a sub-agent uses none. */
function capacityOf({ engine, delegates }: AgentConfig): number {
  return engine.slots * (delegates.length > 0 ? 2 : 1);
}

function trainRole(worker: WorkerProcess, agent: HostedAgent, id: string): TrainRole {
  const { parts, options, checkpoints, observer, watch, trajectories, meter } = worker;
  const { run } = parts;
  const samples = hasRole(options, "rollout");
  const prepare = async (version: number) => {
    if (!samples) return;
    watch.markServable(version);
    await agent.policy.open(version);
  };
  return {
    run,
    agent: agent.name,
    engine: parts.engineOf(agent.config.policy),
    checkpoints,
    worker: id,
    observer,
    watch,
    trajectories,
    meter,
    prepare,
    // No step samples the last version.
    published: async (version) => {
      if (version < run.config.steps) await prepare(version);
    },
  };
}
