/**
 * @file A worker: what lives as long as its process (policies, server, memory of trajectories), and the loops that each of its
 * incarnations runs by its roles.
 *
 *     main agent   rollout  runRollouts      sub-agent  rollout  invocation server      any  train  runTraining
 *     whole team   eval     runEvaluations
 */
import { randomBytes } from "node:crypto";
import type { OpenOutside } from "../core/checkpoint-source.ts";
import type { AgentConfig } from "../core/contracts/agent-config.ts";
import type { EvaluationSuite } from "../core/contracts/evaluation-suite.ts";
import type { WorkerRole } from "../core/contracts/records.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Scorer } from "../core/scorer.ts";
import { type AgentParts, checkEngines, openAgents } from "./agents.ts";
import { createBusyMeter } from "./busy.ts";
import { openCheckpoints } from "./checkpoints.ts";
import { runEvaluations } from "./evaluation/eval-loop.ts";
import { haltedBy } from "./halt.ts";
import { recordBytes } from "./identity.ts";
import { admission } from "./invocations/admission.ts";
import { httpDelegation } from "./invocations/client.ts";
import { http, type Network } from "./invocations/network.ts";
import { type Desk, openDesk } from "./invocations/registry.ts";
import { runInvocation } from "./invocations/run-invocation.ts";
import { invocationApp } from "./invocations/server.ts";
import { openCallVerifier, openReportSigner } from "./invocations/signature.ts";
import { type End, runIncarnation } from "./liveness/incarnation.ts";
import { register } from "./liveness/membership.ts";
import { observeWorkers } from "./liveness/observer.ts";
import { watchSteps } from "./liveness/watch.ts";
import type { Agent } from "./rollouts/agent.ts";
import { type RolloutRole, runRollouts } from "./rollouts/rollout-loop.ts";
import { runTraining, type TrainRole } from "./training/train-loop.ts";
import { noTrajectories, rememberTrajectories } from "./training/trajectories.ts";

/** Seconds that running invocations have to end when the worker drains. */
const DRAIN_SECONDS = 5;

export interface WorkerOptions {
  /** The agent to serve, or `*` for the whole team. */
  readonly agent: string;
  readonly roles: readonly WorkerRole[];
  readonly host: string;
  readonly port: number;
  /** What other workers reach this one by; by default the host and port it listens on. */
  readonly url: string | undefined;
  /** The secret that calls between workers are signed with. */
  readonly token: string;
  /** Somebody will stop this worker; otherwise it ends with its run. */
  readonly supervised: boolean;
  /** Whether to record when the engine was busy, for benches. */
  readonly recordBusy: boolean;
  /** Takes the worker's place in the run once it is registered; false: there is none for it, and it leaves. Absent: it just stays. */
  readonly enter?: (worker: string) => Promise<boolean>;
  /** Registers what is called when somebody hints that the run moved on. */
  readonly onHint?: (hint: () => void) => void;
}

export interface WorkerParts extends AgentParts {
  /** Large files of base models; without it they are looked for in the store. */
  readonly openOutside?: OpenOutside;
  /** What scores an evaluation suite. */
  scorerOf(suite: EvaluationSuite): Scorer | Promise<Scorer>;
}

/** `over`: the run is; `stopped`: by the signal; `unneeded`: it found no place. */
export type ServiceEnd = Exclude<End, "lost"> | "unneeded";

export async function serveWorker(
  parts: WorkerParts,
  options: WorkerOptions,
  stop: AbortSignal,
  network: Network = http,
): Promise<ServiceEnd> {
  const { run, openOutside, scorerOf, engineOf } = parts;
  const { config, store, log } = run;
  const isMain = options.agent === config.main;
  const has = (role: WorkerRole) => options.roles.includes(role);
  if (options.agent !== "*" && !config.agents[options.agent]) {
    throw new MgrpoError(
      "config-invalid",
      `run '${run.name}' has no agent '${options.agent}', only ${Object.keys(config.agents).join(", ")}`,
    );
  }
  if ((options.agent === "*") !== (has("eval") && options.roles.length === 1)) {
    throw new MgrpoError("config-invalid", "--agent * goes with --roles eval, and one agent with rollout and train");
  }

  const meter = createBusyMeter({ keepsIntervals: options.recordBusy });
  const checkpoints = openCheckpoints(run.name, store, openOutside);
  const observer = observeWorkers(run);
  const agents = openAgents(parts, options.agent, checkpoints, meter);
  const own = agents.get(options.agent);
  const watch = watchSteps(run, own?.name);
  options.onHint?.(() => watch.hint());
  const trains = has("train") && own?.config.trained === true;
  const trajectories = trains ? rememberTrajectories() : noTrajectories;
  // Before it is registered: a worker whose server or GPU is away claims nothing, and makes nothing suspect by its end.
  await checkEngines(parts, agents, checkpoints);
  let fail: (error: unknown) => void = () => {};
  const crashed = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  crashed.catch(() => {});

  const desk = own && !isMain && has("rollout") ? openInvocations(own) : undefined;
  const place = randomBytes(6).toString("hex");
  const signatures = {
    verify: openCallVerifier(options.token, store.clock),
    signReport: openReportSigner(options.token),
  };
  const server =
    desk &&
    own &&
    (await network.listen(invocationApp(own.name, place, signatures, desk, log), options.host, options.port));
  const reached = options.url?.replace(/\/+$/, "") ?? `http://${options.host}:${server?.port}`;
  const url = server ? `${reached}/${place}` : "";

  function openInvocations(agent: Agent): Desk {
    return openDesk({
      async run(id, request, signal) {
        const options = { purpose: [config.seed, "sample"], trajectories };
        try {
          return await runInvocation(run, agent, id, request, options, signal);
        } catch (error) {
          throw (await haltedBy(run, error)) ?? error;
        } finally {
          watch.poke();
        }
      },
      ...admission(run, agent.name, watch),
      loading: () => agent.policy.loading(),
      wallClockSeconds: config.limits.invocationSeconds,
      fatal: (error) => fail(error),
    });
  }

  type Common = Omit<RolloutRole, "agent" | "delegation" | "capacity"> &
    Omit<TrainRole, "agent" | "engine" | "prepare" | "foreseen" | "published">;

  function loops(common: Common, signal: AbortSignal): Promise<void>[] {
    const working = [watch.poll(signal)];
    if (own && isMain && has("rollout")) {
      const delegation = httpDelegation(run, observer, options.token, network);
      working.push(runRollouts({ ...common, agent: own, delegation, capacity: capacityOf(own.config) }, signal));
    }
    if (own && trains) {
      const foreseen: TrainRole["foreseen"] = (version, files) => {
        if (!has("rollout")) return;
        own.policy.foresee(version, files);
        watch.serves(version);
      };
      const prepare = async (version: number) => {
        if (!has("rollout")) return;
        watch.serves(version);
        await own.policy.prepare(version);
      };
      const published = async (version: number, step: number) => {
        await prepare(version);
        if (!options.recordBusy) return;
        // The store's first answers are for those who claim, when somebody measures, too.
        await store.clock.sleep(config.liveness.pollSeconds, signal);
        await recordBusy(common.worker, step);
      };
      const engine = engineOf(own.config.policy);
      working.push(runTraining({ ...common, agent: own.name, engine, prepare, foreseen, published }, signal));
    }
    return working;
  }

  /** Resolves when there is nothing more to do, for a worker that nobody else will stop. */
  async function untilOver(worker: string, signal: AbortSignal): Promise<void> {
    const untilIdle = options.enter !== undefined;
    if (has("eval")) {
      await runEvaluations({ run, agents, scorerOf, checkpoints, worker, observer, untilIdle }, signal);
      if (untilIdle) return;
      // Whether it ended since the run was halted is for the store to say, not for the last look at it.
      await watch.refresh();
    }
    const ended = await watch.until(
      (seen) => (seen.run.status === "running" || options.supervised ? undefined : seen.run),
      signal,
    );
    if (ended.status === "halted") throw new MgrpoError("run-halted", `run '${run.name}' is halted: ${ended.reason}`);
  }

  async function recordBusy(worker: string, step: number) {
    const key = `runs/${run.name}/busy/${String(step).padStart(6, "0")}/${worker}.json`;
    await store.objects.commit(key, recordBytes(meter.takeIntervals()));
  }

  async function incarnation(): Promise<End | ServiceEnd> {
    const membership = await register(run, { agent: options.agent, roles: options.roles, url }, observer, stop);
    const worker = membership.id;
    if (options.enter && !(await options.enter(worker))) {
      await membership.leave();
      return "unneeded";
    }
    const common = { run, worker, membership, watch, observer, trajectories, meter, checkpoints };
    return runIncarnation({
      ...{ membership, stop, crashed, log },
      loops: (signal) => loops(common, signal),
      over: (signal) => untilOver(worker, signal),
      drain: async () => desk?.drain(DRAIN_SECONDS),
    });
  }

  try {
    for (;;) {
      const end = await incarnation();
      if (end !== "lost") return end;
    }
  } finally {
    await server?.close();
    await Promise.all([...agents.values()].map(({ policy }) => policy.close()));
  }
}

/** Conversations in flight: one that waits for a sub-agent leaves its slot to another. */
function capacityOf({ engine, delegates }: AgentConfig): number {
  return engine.slots * (delegates.length > 0 ? 2 : 1);
}
