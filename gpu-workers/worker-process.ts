/** @file What a worker process keeps while it serves a run, through all its incarnations: agents, server, pollers, trajectories in memory. */
import type { OpenExternalPart } from "../core/checkpoint-source.ts";
import type { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import type { WorkerRole } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Delegation } from "../core/ports.ts";
import type { Scorer } from "../core/scorer.ts";
import { trainedAgents } from "../core/training/step-plan.ts";
import { type AgentParts, openAgents, verifyEngines } from "./agents.ts";
import { type BusyMeter, createBusyMeter } from "./busy.ts";
import { type Checkpoints, openCheckpoints } from "./checkpoints.ts";
import { logWithoutQuestions } from "./evaluation/encrypted-run.ts";
import type { AppRunner } from "./gateway/app-rollout.ts";
import { type GatewayService, openGatewayService } from "./gateway/gateway-service.ts";
import { type InvocationService, openInvocationService } from "./invocation-service.ts";
import { httpDelegation } from "./invocations/client.ts";
import type { WorkerNetwork } from "./invocations/network.ts";
import { LatencyLog } from "./latencies.ts";
import { openWorkerObserver, type WorkerObserver } from "./liveness/observer.ts";
import { type StepWatch, watchSteps } from "./liveness/watch.ts";
import { stackOf } from "./log.ts";
import type { HostedAgent } from "./rollouts/agent.ts";
import type { RunContext } from "./run-context.ts";
import { noTrajectoryCache, openTrajectoryCache, type TrajectoryCache } from "./training/trajectories.ts";
import { agentsReportingUnhandledRejections, unhandledToolRejection } from "./unhandled-rejections.ts";

export interface WorkerParts extends AgentParts {
  /** Opens large files of base models, which are outside the store. Absent: a base model with such files cannot be read. */
  readonly openExternalPart?: OpenExternalPart;
  scorerOf(suite: EvaluationSuite): Scorer | Promise<Scorer>;
  /** The app that runs rollouts; absent: this program does. */
  readonly runner?: AppRunner;
}

export interface ServeWorkerOptions {
  /** The agent to serve, or `*` for the whole team. */
  readonly agent: string;
  readonly roles: readonly WorkerRole[];
  readonly host: string;
  readonly port: number;
  /** The URL at which other workers, or an app, reach this one; undefined: the host and port it listens on. */
  readonly url: string | undefined;
  /** The secret that signs calls between workers. */
  readonly token: string;
  /** Another process stops this worker; otherwise it ends with its run. */
  readonly supervised: boolean;
  /** Admits the registered worker to the run; false: the run needs no more workers, and this one leaves. Absent: it is always admitted. */
  readonly enter?: (worker: string) => Promise<boolean>;
  /** Registers a callback for hints that the run has moved on. */
  readonly onHint?: (hint: () => void) => void;
}

export interface WorkerProcess {
  readonly parts: WorkerParts;
  readonly options: ServeWorkerOptions;
  readonly network: WorkerNetwork;
  readonly agents: ReadonlyMap<string, HostedAgent>;
  /** The agent that it serves; undefined for the whole team. */
  readonly own: HostedAgent | undefined;
  readonly isTrainer: boolean;
  readonly observer: WorkerObserver;
  readonly watch: StepWatch;
  /** How its agent calls its sub-agents. */
  readonly delegation: Delegation;
  readonly checkpoints: Checkpoints;
  readonly meter: BusyMeter;
  readonly latencies: LatencyLog;
  readonly trajectories: TrajectoryCache;
  /** For a sub-agent that samples. */
  readonly invocations: InvocationService | undefined;
  /** For a worker that runs rollouts of an app. */
  readonly gateway: GatewayService | undefined;
  /** Rejects on a fault outside the loops after which the process cannot continue. */
  readonly crashed: Promise<never>;
}

/**
 * Runs before the worker registers. Rejects if something that the worker needs is missing, such as a GPU, its engine's server or a judge's
 * key: such a worker must claim nothing, and make no rollout suspect.
 */
export async function openWorkerProcess(
  parts: WorkerParts,
  options: ServeWorkerOptions,
  network: WorkerNetwork,
): Promise<WorkerProcess> {
  const { run } = parts;
  refuseInvalidOptions(run, options);
  if (hasRole(options, "eval")) await Promise.all(run.config.evaluation.suites.map((suite) => parts.scorerOf(suite)));
  const meter = createBusyMeter({ limits: run.config.limits });
  const checkpoints = openCheckpoints(run.name, run.store, parts.openExternalPart);
  const observer = openWorkerObserver(run);
  const latencies = new LatencyLog();
  const hosted = openAgents(parts, options.agent, checkpoints, meter, latencies);
  const log = hasRole(options, "eval") ? logWithoutQuestions(run) : run.log;
  const agents = agentsReportingUnhandledRejections(hosted, (error, tool) => {
    log.warn(`${unhandledToolRejection(tool)}: await it, or catch its error`, { error: stackOf(error) });
  });
  const own = agents.get(options.agent);
  const watch = watchSteps(run, own?.name);
  options.onHint?.(() => watch.pollNow());
  const isTrainer = hasRole(options, "train") && trainedAgents(run.config).includes(options.agent);
  const trajectories = isTrainer ? openTrajectoryCache() : noTrajectoryCache;
  await verifyEngines(parts, agents, checkpoints);
  const { crashed, crash } = openCrash();
  const isServer = own !== undefined && own.name !== run.config.main && hasRole(options, "rollout");
  const delegation = httpDelegation(run, observer, options.token, network);
  const invocations = isServer
    ? await openInvocationService({ run, agent: own, watch, trajectories, delegation, network, options, crash })
    : undefined;
  const runsRollouts = own === undefined || (own.name === run.config.main && hasRole(options, "rollout"));
  const gateway =
    parts.runner && runsRollouts
      ? await openGatewayService(run.config, parts.runner, network, options, log)
      : undefined;
  return {
    parts,
    options,
    network,
    agents,
    own,
    isTrainer,
    observer,
    watch,
    delegation,
    checkpoints,
    meter,
    latencies,
    trajectories,
    invocations,
    gateway,
    crashed,
  };
}

export async function closeWorkerProcess({ invocations, gateway, agents }: WorkerProcess): Promise<void> {
  await Promise.all([invocations?.close(), gateway?.close()]);
  await Promise.all([...agents.values()].map(({ policy }) => policy.close()));
}

export function hasRole({ roles }: Pick<ServeWorkerOptions, "roles">, role: WorkerRole): boolean {
  return roles.includes(role);
}

function refuseInvalidOptions({ name, config }: RunContext, { agent, roles }: ServeWorkerOptions): void {
  if (agent !== "*" && config.agents[agent] === undefined) {
    const known = Object.keys(config.agents).join(", ");
    throw new MgrpoError("config-invalid", `run '${name}' has no agent '${agent}', only ${known}`);
  }
  const evaluates = hasRole({ roles }, "eval");
  // An evaluator closes the policies while it has no job: nothing else in its process may use them.
  if ((agent === "*") !== evaluates || (evaluates && roles.some((role) => role !== "eval"))) {
    throw new MgrpoError(
      "config-invalid",
      "use --agent '*' with --roles eval, or name one agent with --roles rollout, train or both",
    );
  }
}

function openCrash(): { crashed: Promise<never>; crash: (error: unknown) => void } {
  let crash: (error: unknown) => void = () => {};
  const crashed = new Promise<never>((_resolve, reject) => {
    crash = reject;
  });
  // Between two incarnations nothing awaits it.
  crashed.catch(() => {});
  return { crashed, crash };
}
