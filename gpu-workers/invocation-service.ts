/** @file The server of a sub-agent's worker: other workers invoke the agent over signed HTTP, and forward an app's requests to it. */
import { randomBytes } from "node:crypto";
import type { Delegation } from "../core/ports.ts";
import { AgentSessions } from "./gateway/agent-sessions.ts";
import { maxConversations } from "./gateway/gateway-service.ts";
import { addSessionRoutes, type SessionHost } from "./gateway/session-routes.ts";
import { localSubAgent } from "./gateway/sub-agents.ts";
import { haltIfRefused } from "./halt.ts";
import { type AdmissionRules, admissionRules } from "./invocations/admission.ts";
import { httpOrigin, type WorkerNetwork } from "./invocations/network.ts";
import { type InvocationRegistry, openInvocationRegistry } from "./invocations/registry.ts";
import { runInvocation } from "./invocations/run-invocation.ts";
import { invocationApp } from "./invocations/server.ts";
import { openCallVerifier, openReportSigner } from "./invocations/signature.ts";
import { within } from "./limits.ts";
import type { StepWatch } from "./liveness/watch.ts";
import type { HostedAgent } from "./rollouts/agent.ts";
import type { RunContext } from "./run-context.ts";
import type { TrajectoryCache } from "./training/trajectories.ts";

export interface InvocationService {
  /** Where other workers reach it. */
  readonly url: string;
  /**
   * Accepts no new work, and cancels invocations that have not begun. Resolves when the others have ended, and every session that is ending is
   * committed or has failed. After `seconds`, it cancels the invocations that still run, and no longer waits for the sessions.
   */
  drain(seconds: number): Promise<void>;
  close(): Promise<void>;
}

export interface InvocationServiceParts {
  readonly run: RunContext;
  readonly agent: HostedAgent;
  readonly watch: StepWatch;
  readonly trajectories: TrajectoryCache;
  /** How the agent calls those below it. */
  readonly delegation: Delegation;
  readonly network: WorkerNetwork;
  readonly options: {
    readonly host: string;
    readonly port: number;
    /** The URL at which other workers reach this one; undefined: the host and port it listens on. */
    readonly url: string | undefined;
    /** The secret that signs calls between workers. */
    readonly token: string;
  };
  /** Called with an error that the process cannot continue after. */
  readonly crash: (error: unknown) => void;
}

export async function openInvocationService(parts: InvocationServiceParts): Promise<InvocationService> {
  const { run, agent, network, options } = parts;
  const rules = admissionRules(run, agent.name, parts.watch);
  const registry = openRegistry(parts, rules);
  // A unique path: a call meant for a worker that had this port before gets 404.
  const path = randomBytes(6).toString("hex");
  const signatures = {
    verify: openCallVerifier(options.token, run.store.clock),
    signReport: openReportSigner(options.token),
  };
  const app = invocationApp(agent.name, path, signatures, registry, run.log);
  const sessions =
    run.config.runner === "native" ? undefined : addSessionRoutes(app, path, signatures, sessionHost(parts, rules));
  const server = await network.listen(app, options.host, options.port);
  const base = options.url?.replace(/\/+$/, "") ?? httpOrigin(options.host, server.port);
  return {
    url: `${base}/${path}`,
    async drain(seconds) {
      await Promise.all([sessions && within(sessions.close(), seconds), registry.drain(seconds)]);
    },
    close: () => server.close(),
  };
}

function sessionHost({ run, agent, trajectories }: InvocationServiceParts, admission: AdmissionRules): SessionHost {
  const { seed, staleness } = run.config;
  const sessions = new AgentSessions(agent, [seed, "sample"], maxConversations(run.config), staleness);
  const sub = localSubAgent(run, sessions, trajectories);
  return {
    agent: agent.name,
    sub: { ...sub, turn: (...request) => haltingIfRefused(run, sub.turn(...request)) },
    admission,
    staleness,
    isLoadingOther: (version) => agent.policy.isLoadingOther(version),
    log: run.log,
  };
}

/** Settles as the work does. A refusal halts the run, and rejects with `run-halted`. */
async function haltingIfRefused<T>(run: RunContext, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw (await haltIfRefused(run, error)) ?? error;
  }
}

function openRegistry(parts: InvocationServiceParts, rules: AdmissionRules): InvocationRegistry {
  const { run, agent, watch, trajectories, delegation, crash } = parts;
  return openInvocationRegistry({
    async run(id, request, signal) {
      const opened = rules.whenOpen(request, signal);
      const options = { purpose: [run.config.seed, "sample"], trajectories, delegation, opened };
      try {
        return await haltingIfRefused(run, runInvocation(run, agent, id, request, options, signal));
      } finally {
        watch.expectChange();
      }
    },
    ...rules,
    isLoadingOther: (version) => agent.policy.isLoadingOther(version),
    staleness: run.config.staleness,
    invocationSeconds: run.config.limits.invocationSeconds,
    onFatal: crash,
  });
}
