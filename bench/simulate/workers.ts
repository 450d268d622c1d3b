/** @file Runs the real workers on a simulated store and network, with the scripted policy. */
import type { Hono } from "hono";
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { PolicyEngine } from "../../core/ports.ts";
import type { WorkerNetwork } from "../../gpu-workers/invocations/network.ts";
import type { Log } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { serveWorker } from "../../gpu-workers/serve.ts";
import { SECONDS } from "./assumptions.ts";
import { type Cloud, openSimulatedStore, pause } from "./cloud/store.ts";
import type { SimulationPlan } from "./plan.ts";
import { simulatedRewards, simulatedTools } from "./team.ts";

/** The workers' starts are spread over this many seconds: machines do not start all at once. */
const STAGGER_SECONDS = 5;

/**
 * Starts all workers of a run. Resolves when they have ended, rejects with the first failure.
 *
 * @param workers Agent -> number of its workers.
 */
export async function runWorkers(
  config: RunConfig,
  workers: SimulationPlan["workers"],
  cloud: Cloud,
  engine: PolicyEngine,
  log: Log,
): Promise<void> {
  const network = openNetwork();
  const all = Object.entries(workers).flatMap(([agent, count]) => Array.from({ length: count }, () => agent));
  await Promise.all(
    all.map(async (agent, i) => {
      await pause((STAGGER_SECONDS * i) / all.length);
      const run = await readRunContext(config.run, "simulated", openSimulatedStore(cloud, { name: "worker" }), log);
      const parts = {
        run,
        tools: simulatedTools,
        scorerOf: () => simulatedRewards,
        engineOf: () => engine,
        apiOf: noApi,
      };
      const registration = { agent, roles: ["rollout", "train"] as const, host: "worker", port: 0, url: undefined };
      const options = { ...registration, token: "a secret of the simulation", supervised: false };
      await serveWorker(parts, options, new AbortController().signal, network);
    }),
  );
}

function noApi({ policy }: AgentConfig): never {
  throw new RangeError(`no agent of a simulation is behind an API (${policy})`);
}

/** A network between the workers in this process. */
function openNetwork(): WorkerNetwork {
  const apps = new Map<string, Hono>();
  let ports = 0;
  return {
    async listen(app, host) {
      const port = ++ports;
      const origin = `http://${host}:${port}`;
      apps.set(origin, app);
      return {
        port,
        async close() {
          apps.delete(origin);
        },
      };
    },
    async fetch(url, { signal, ...init }) {
      const app = apps.get(new URL(url).origin);
      await pause(SECONDS.call);
      if (!app) throw new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } });
      signal?.throwIfAborted();
      const aborted = new Promise<never>((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
      });
      return Promise.race([aborted, app.request(url, init)]);
    },
  };
}
