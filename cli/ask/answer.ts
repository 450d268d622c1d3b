/**
 * @file Answers one question in this process: a rollout like any other, in an embedded cloud that is deleted afterward. An outage ends it
 * without another attempt.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { AnyTrajectory } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { type AgentParts, openAgents } from "../../gpu-workers/agents.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import { openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import { type ComposedParts, compose } from "../../gpu-workers/compose.ts";
import { inProcessDelegation } from "../../gpu-workers/invocations/in-process.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { HostedAgent } from "../../gpu-workers/rollouts/agent.ts";
import { attemptRollout } from "../../gpu-workers/rollouts/attempt-rollout.ts";
import type { ConversationProgress } from "../../gpu-workers/rollouts/converse.ts";
import { readBases } from "../local/base-models.ts";
import { openEmbeddedCloud } from "../local/embedded-cloud.ts";
import { startOrResume } from "../local/start-or-resume.ts";
import { readInvocations } from "../show/conversations.ts";
import type { AskedTeam, AskOptions } from "./config.ts";

/** A conversation in progress: its agent, and the index of the delegation that it answers (undefined: the question itself). */
export interface ConversationSource {
  readonly agent: string;
  readonly call: number | undefined;
}

export type OnProgress = (source: ConversationSource, progress: ConversationProgress) => void;

export interface TeamAnswer {
  readonly conversation: Conversation;
  /** From all agents, one per conversation. */
  readonly trajectories: readonly AnyTrajectory[];
}

/** How to sample. */
type Draws = Pick<AskOptions, "seed" | "temperature">;

/** The user's question, as the recipe phrases it. */
export function questionOf({ recipe }: AskedTeam, prompt: string): Question {
  return recipe.ask?.(prompt) ?? { id: "asked", kind: "asked", level: 1, prompt, answer: "", facts: null };
}

export async function answer(
  { config }: AskedTeam,
  question: Question,
  draws: Draws,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<TeamAnswer> {
  const bases = await readBases(config, "evaluate");
  const directory = mkdtempSync(join(tmpdir(), "mgrpo-ask-"));
  try {
    const session = await openEmbeddedCloud(join(directory, "cloud"), join(directory, "functions.log"));
    try {
      await startOrResume(
        session,
        config,
        () => bases,
        () => ({ train: [question], heldOut: [] }),
      );
      const silent = createLog(() => {});
      const parts = await compose(config.run, session.store, silent);
      return await withAgents(parts, (agents) =>
        rollOut(parts.run, agents, question, draws, onProgress, signal),
      ).finally(() => parts.close());
    } finally {
      await session.close();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function rollOut(
  run: AgentParts["run"],
  hosted: ReadonlyMap<string, HostedAgent>,
  question: Question,
  { seed, temperature }: Draws,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<TeamAnswer> {
  const agents = new Map([...hosted].map(([name, agent]) => [name, reporting(agent, onProgress)]));
  const main = agents.get(run.config.main);
  if (!main) throw new RangeError(`the team has no '${run.config.main}'`);
  const purpose = [seed, "ask"];
  const team = {
    run,
    agent: main,
    delegation: inProcessDelegation(run, agents, purpose),
    hasLiveSubAgents: () => true,
  };
  const plan = {
    address: { run: run.name, phase: "eval:ask", step: 0, group: 0, rollout: 0 },
    question,
    versions: Object.fromEntries([...agents.keys()].map((name) => [name, 0])),
    sampling: { temperature, topP: 1, topK: 0 },
    purpose,
    closedBook: false,
  };
  const outcome = await attemptRollout(team, plan, signal, () => false);
  if (outcome.status === "failed") throw new MgrpoError("deadline", outcome.reason);
  const invocations = await readInvocations(run.store, outcome);
  const trajectories = [outcome, ...invocations.values()].map(({ trajectory }) => trajectory);
  return { conversation: outcome.conversation, trajectories };
}

const reporting = (agent: HostedAgent, onProgress: OnProgress): HostedAgent => ({
  ...agent,
  onProgress: (progress, call) => onProgress({ agent: agent.name, call }, progress),
});

/** Opens the agents and closes them afterward. */
async function withAgents<T>(
  parts: ComposedParts,
  work: (agents: ReadonlyMap<string, HostedAgent>) => Promise<T>,
): Promise<T> {
  const { run, openExternalPart } = parts;
  const agents = openAgents(parts, "*", openCheckpoints(run.name, run.store, openExternalPart), createBusyMeter());
  try {
    return await work(agents);
  } finally {
    await Promise.all([...agents.values()].map(({ policy }) => policy.close()));
  }
}
