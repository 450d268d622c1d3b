/**
 * @file One question, one team, in this process: a rollout like any other, in an embedded cloud that is gone afterwards. An outage
 * ends it; asking again is the user's.
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

/** Who says something: an agent, and which delegation it answers (undefined: the question itself). */
export interface Voice {
  readonly agent: string;
  readonly call: number | undefined;
}

export type Narrate = (voice: Voice, moment: ConversationProgress) => void;

export interface TeamAnswer {
  readonly conversation: Conversation;
  /** Of all agents, one per conversation. */
  readonly trajectories: readonly AnyTrajectory[];
}

export async function answer(
  { config, recipe }: AskedTeam,
  prompt: string,
  { seed, temperature }: Pick<AskOptions, "seed" | "temperature">,
  narrate: Narrate,
  signal: AbortSignal,
): Promise<TeamAnswer> {
  const question = recipe.ask?.(prompt) ?? withoutFacts(prompt);
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
      const parts = await compose(
        config.run,
        session.store,
        createLog(() => {}),
      );
      try {
        return await withAgents(parts, (agents) => roll(parts, agents, narrate));
      } finally {
        await parts.close();
      }
    } finally {
      await session.close();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }

  async function roll(
    { run }: AgentParts,
    agents: ReadonlyMap<string, HostedAgent>,
    tell: Narrate,
  ): Promise<TeamAnswer> {
    const telling = new Map(
      [...agents].map(([name, agent]) => [
        name,
        {
          ...agent,
          tell: (moment: ConversationProgress, call: number | undefined) => tell({ agent: name, call }, moment),
        },
      ]),
    );
    const main = telling.get(config.main);
    if (!main) throw new RangeError(`the team has no '${config.main}'`);
    const purpose = [seed, "ask"];
    const team = {
      run,
      agent: main,
      delegation: inProcessDelegation(run, telling, purpose),
      hasLiveSubAgents: () => true,
    };
    const address = { run: config.run, phase: "eval:ask", step: 0, group: 0, rollout: 0 };
    const versions = Object.fromEntries([...agents.keys()].map((name) => [name, 0]));
    const sampling = { temperature, topP: 1, topK: 0 };
    const plan = { address, question, versions, sampling, purpose, closedBook: false };
    const outcome = await attemptRollout(team, plan, signal, () => false);
    if (outcome.status === "failed") throw new MgrpoError("deadline", outcome.reason);
    const invocations = await readInvocations(run.store, outcome);
    const trajectories = [outcome, ...invocations.values()].map(({ trajectory }) => trajectory);
    return { conversation: outcome.conversation, trajectories };
  }
}

/** The agents, closed afterwards. */
async function withAgents<T>(
  parts: ComposedParts,
  work: (agents: ReadonlyMap<string, HostedAgent>) => Promise<T>,
): Promise<T> {
  const { run, openOutside } = parts;
  const agents = openAgents(parts, "*", openCheckpoints(run.name, run.store, openOutside), createBusyMeter());
  try {
    return await work(agents);
  } finally {
    await Promise.all([...agents.values()].map(({ policy }) => policy.close()));
  }
}

function withoutFacts(prompt: string): Question {
  return { id: "asked", kind: "asked", level: 1, prompt, answer: "", facts: null };
}
