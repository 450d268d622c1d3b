/** @file A whole team in this process, with its run in an embedded cloud that is deleted afterward: for `ask` and `dev`. */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { QuestionSet } from "../../core/contracts/question.ts";
import { openAgents } from "../../gpu-workers/agents.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import { openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import { type ComposedParts, compose } from "../../gpu-workers/compose.ts";
import type { AppRunner } from "../../gpu-workers/gateway/app-rollout.ts";
import { type AppParts, openGatewayService } from "../../gpu-workers/gateway/gateway-service.ts";
import { httpNetwork } from "../../gpu-workers/invocations/network.ts";
import type { Log } from "../../gpu-workers/log.ts";
import type { HostedAgent } from "../../gpu-workers/rollouts/agent.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { agentsReportingUnhandledRejections } from "../../gpu-workers/unhandled-rejections.ts";
import { makeTemporary } from "../writable-folder.ts";
import type { Bases } from "./base-models.ts";
import { type EmbeddedCloud, openEmbeddedCloud } from "./embedded-cloud.ts";
import { startOrResume } from "./start-or-resume.ts";

export interface HostedTeam {
  readonly run: RunContext;
  readonly agents: ReadonlyMap<string, HostedAgent>;
  /** Runs the rollouts through an app; undefined: this program runs them. */
  readonly app: AppParts | undefined;
  /** Scores a committed outcome with the recipe's rewards. The last score of a group finalizes the group. */
  readonly score: EmbeddedCloud["functions"]["scoreRollout"];
  /** Repairs the run and advances it, as a scheduled tick does. This also finalizes a group whose last score was not written by `score`. */
  tick(): Promise<void>;
}

export interface HostOptions {
  readonly bases: Bases;
  readonly questions: QuestionSet;
  readonly log: Log;
  /** Called with each unhandled rejection of a tool. */
  readonly onUnhandledToolRejection: (error: unknown, tool: string) => void;
  /** Called with each warning and error of the gateway, which a worker would log. */
  readonly onGatewayWarning: (warning: string) => void;
  /** Wraps the app that runs rollouts. */
  readonly observe?: (runner: AppRunner) => AppRunner;
}

export async function withHostedTeam<T>(
  config: RunConfig,
  options: HostOptions,
  work: (team: HostedTeam) => Promise<T>,
): Promise<T> {
  const directory = makeTemporary(`mgrpo-${config.run}-`);
  try {
    return await inFolder(directory, config, options, work);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function inFolder<T>(
  directory: string,
  config: RunConfig,
  { bases, questions, log, onUnhandledToolRejection, onGatewayWarning, observe = (runner) => runner }: HostOptions,
  work: (team: HostedTeam) => Promise<T>,
): Promise<T> {
  const cloud = await openEmbeddedCloud(join(directory, "cloud"), join(directory, "functions.log"));
  try {
    await startOrResume(
      cloud,
      config,
      () => bases,
      () => questions,
    );
    const parts = await compose(config.run, cloud.store, log);
    try {
      const { runner, ...others } = parts;
      return await withAgents(others, runner && observe(runner), logOf(onGatewayWarning), (team) =>
        work({
          ...team,
          agents: agentsReportingUnhandledRejections(team.agents, onUnhandledToolRejection),
          score: (event) => cloud.functions.scoreRollout(event),
          tick: () => cloud.functions.tick({ run: config.run }),
        }),
      );
    } finally {
      await parts.close();
    }
  } finally {
    await cloud.close();
  }
}

async function withAgents<T>(
  parts: Omit<ComposedParts, "runner">,
  runner: AppRunner | undefined,
  gatewayLog: Log,
  work: (team: Omit<HostedTeam, "score" | "tick">) => Promise<T>,
): Promise<T> {
  const { run, openExternalPart } = parts;
  const agents = openAgents(parts, "*", openCheckpoints(run.name, run.store, openExternalPart), createBusyMeter());
  const here = { host: "127.0.0.1", port: 0, url: undefined, token: randomBytes(24).toString("base64url") };
  const app = runner && (await openGatewayService(run.config, runner, httpNetwork, here, gatewayLog));
  try {
    return await work({ run, agents, app });
  } finally {
    await app?.close();
    await Promise.all([...agents.values()].map(({ policy }) => policy.close()));
  }
}

/** The text of a warning or an error ends with its fields. */
function logOf(onWarning: (warning: string) => void): Log {
  const warn: Log["warn"] = (what, fields = {}) => onWarning([what, ...Object.values(fields)].join(": "));
  return { info: () => {}, warn, error: warn };
}
