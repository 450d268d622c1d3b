/**
 * @file Answers one question in this process: a rollout like any other, by this program or by the recipe's app. It has one attempt: an
 * infrastructure failure ends it.
 */
import type { Conversation } from "../../core/contracts/conversation.ts";
import type { Question } from "../../core/contracts/question.ts";
import { type AnyTrajectory, type CallPath, mainTrajectories } from "../../core/contracts/rollout.ts";
import { errorText, MgrpoError } from "../../core/errors.ts";
import { wholeTeam } from "../../gpu-workers/gateway/whole-team.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { HostedAgent } from "../../gpu-workers/rollouts/agent.ts";
import { attemptRollout } from "../../gpu-workers/rollouts/attempt-rollout.ts";
import type { ConversationProgress } from "../../gpu-workers/rollouts/converse.ts";
import { unhandledToolRejection } from "../../gpu-workers/unhandled-rejections.ts";
import { readInvocations } from "../conversations.ts";
import { readBases } from "../local/base-models.ts";
import { type HostedTeam, withHostedTeam } from "../local/hosted-team.ts";
import { refuseMissingModels } from "../local/missing-models.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import type { AskedTeam, AskOptions } from "./config.ts";

/** A conversation in progress: its agent, and the delegation that it answers. */
export interface ConversationSource {
  readonly agent: string;
  readonly path: CallPath;
}

export type OnProgress = (source: ConversationSource, progress: ConversationProgress) => void;

export interface TeamAnswer {
  readonly conversation: Conversation;
  /** From all agents, one per conversation. */
  readonly trajectories: readonly AnyTrajectory[];
}

type SamplingOptions = Pick<AskOptions, "seed" | "temperature">;

/** The user's question, as the recipe phrases it. */
export function questionOf({ recipe }: AskedTeam, prompt: string): Question {
  return recipe.ask?.(prompt) ?? { id: "asked", kind: "asked", level: 1, prompt, answer: "", facts: null };
}

export async function answer(
  { config, recipe }: AskedTeam,
  question: Question,
  sampling: SamplingOptions,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<TeamAnswer> {
  refuseMissingModels(recipe, config);
  const bases = await readBases(config, "evaluate");
  const questions = { train: [question], heldOut: [] };
  const warn = (warning: string) => console.error(`warning: ${stripControlCharacters(warning)}`);
  const reports = {
    log: createLog(() => {}),
    onUnhandledToolRejection: (error: unknown, tool: string) =>
      warn(`${unhandledToolRejection(tool)}: ${errorText(error)}`),
    onGatewayWarning: warn,
  };
  return withHostedTeam(config, { bases, questions, ...reports }, (team) =>
    rollOut(team, question, sampling, onProgress, signal),
  );
}

async function rollOut(
  { run, agents: hosted, app }: HostedTeam,
  question: Question,
  { seed, temperature }: SamplingOptions,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<TeamAnswer> {
  const agents = new Map([...hosted].map(([name, agent]) => [name, reporting(agent, onProgress)]));
  const purpose = [seed, "ask"];
  const plan = {
    address: { run: run.name, phase: "eval:ask", step: 0, group: 0, rollout: 0 },
    question,
    versions: Object.fromEntries([...agents.keys()].map((name) => [name, 0])),
    sampling: { temperature, topP: 1, topK: 0 },
    purpose,
    closedBook: false,
  };
  const outcome = await attemptRollout(wholeTeam(run, agents, purpose, app), plan, signal, () => false);
  if (outcome.status === "failed") throw new MgrpoError("endpoint-unavailable", outcome.reason);
  const { conversation } = outcome;
  // The end of an app's main conversation is known only now.
  if (app) onProgress({ agent: run.config.main, path: [] }, { kind: "end", conversation });
  const invocations = await readInvocations(run.store, outcome);
  return {
    conversation,
    trajectories: [...mainTrajectories(outcome), ...[...invocations.values()].map(({ trajectory }) => trajectory)],
  };
}

const reporting = (agent: HostedAgent, onProgress: OnProgress): HostedAgent => ({
  ...agent,
  onProgress: (progress, path) => onProgress({ agent: agent.name, path }, progress),
});
