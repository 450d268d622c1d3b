/** @file The gateway's server in a process that runs rollouts of an app: the main agent's worker, an evaluator, and `ask` and `dev`. */
import { randomBytes } from "node:crypto";
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import { httpOrigin, type WorkerNetwork } from "../invocations/network.ts";
import type { Log } from "../log.ts";
import { gatewayApp } from "./api/app.ts";
import type { AppHost, AppRunner } from "./app-rollout.ts";
import { type OpenAttempts, openAttempts } from "./attempts.ts";

/** What runs rollouts of an app, apart from the team. */
export type AppParts = Omit<AppHost, "team">;

export interface GatewayService extends AppParts {
  close(): Promise<void>;
}

/**
 * @param options `url`: the URL at which apps reach this process; undefined: the host and port it listens on. `token`: the secret that attempts'
 * keys are derived from.
 */
export async function openGatewayService(
  config: RunConfig,
  runner: AppRunner,
  network: WorkerNetwork,
  options: { readonly host: string; readonly port: number; readonly url: string | undefined; readonly token: string },
  log: Log,
): Promise<GatewayService> {
  const path = randomBytes(6).toString("hex");
  let base = "";
  const attempts: OpenAttempts = openAttempts(options.token, () => `${base}/${path}/v1`);
  const server = await network.listen(gatewayApp(path, attempts, log), options.host, options.port);
  base = options.url?.replace(/\/+$/, "") ?? httpOrigin(options.host, server.port);
  return { attempts, runner, seconds: config.limits.rolloutSeconds, close: () => server.close() };
}

/** Limit on an agent's conversations in one rollout. A GROUP record has room for that many of every sub-agent. */
export function maxConversations({ agents, main }: Pick<RunConfig, "agents" | "main">): number {
  const agent = agents[main];
  if (!agent) throw new MgrpoError("config-invalid", `the main agent '${main}' is not an agent of the team`);
  return agent.limits.turns * agent.limits.calls;
}
