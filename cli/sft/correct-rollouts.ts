/**
 * @file The correct rollouts of a run, or of an evaluation on the user's own questions, as demonstrations (rejection sampling): every
 * answered conversation in them, the main agent's and its sub-agents'. They are taken as text, so agents behind an API count too. An app's
 * conversations are also taken as sampled tokens, since nothing else records the app's own messages and tools. Held-out questions and those of
 * published benchmarks are never used.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { Conversation } from "../../core/contracts/conversation.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { GroupRecord, JobRecord } from "../../core/contracts/records.ts";
import {
  type AnyTrajectory,
  mainTrajectories,
  type RolloutAddress,
  type Trajectory,
} from "../../core/contracts/rollout.ts";
import { ownerOf } from "../../core/contracts/shared-policy.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import type { Demonstration } from "../../core/recipe.ts";
import type { Tally } from "../../core/training/confidence-interval.ts";
import { addressStep } from "../../core/training/evaluation.ts";
import type { Example } from "../../sft/example.ts";
import type { LocatedDemonstration } from "../../sft/messages.ts";
import { readRollout } from "../conversations.ts";
import { EVALUATION_CLOUD, EVALUATION_RUN, resultOf } from "../local/evaluate-team.ts";
import { readGroups, readJobs, readManifest, readStep, suiteOf } from "../local/read-records.ts";
import { openSource } from "../show/source.ts";

export interface AgentDemonstration extends LocatedDemonstration {
  readonly agent: string;
  /** Of an app's agent: its branches as sampled. */
  readonly sampled?: SampledBranches;
}

export interface SampledBranches {
  readonly examples: readonly Example[];
  /** SHA-256 of the tokenizer.json whose tokens these are. */
  readonly tokenizerSha256: string;
}

/** @param from a run's name, or the folder of an evaluation. Equal conversations are returned once. */
export async function correctConversations(from: string, minReward: number): Promise<AgentDemonstration[]> {
  const isEvaluation = existsSync(join(from, EVALUATION_CLOUD));
  const found = await (isEvaluation ? ofEvaluation(from, minReward) : ofRun(from, minReward));
  return [...new Map(found.map((one) => [JSON.stringify([one.agent, one.demonstration, one.sampled]), one])).values()];
}

async function ofRun(run: string, minReward: number): Promise<AgentDemonstration[]> {
  const { config, step, read } = await openSource(run);
  return read((store) => ofSteps(store, config, step, minReward));
}

/** The correct rollouts of the first `steps` steps. Those that the store no longer keeps are left out. */
export async function ofSteps(store: Store, config: RunConfig, steps: number, minReward: number) {
  const found: AgentDemonstration[] = [];
  for (let step = 0; step < steps; step++) {
    for (const group of await readGroups(store, await readStep(store, config.run, step))) {
      for (const rollout of correctRollouts(group, minReward)) {
        const address = { run: config.run, phase: "train", step: group.step, group: group.group, rollout };
        found.push(...(await ofRollout(store, config, address)));
      }
    }
  }
  return found;
}

/** A wrong answer may earn a reward for its format: it is never correct, whatever `minReward` is. A reward may exceed 1; correctness cannot. */
function correctRollouts({ rollouts }: GroupRecord, minReward: number): number[] {
  const least = Math.min(1, minReward);
  return Object.entries(rollouts).flatMap(([index, score]) => {
    if ("excluded" in score || score.correct === 0) return [];
    return score.reward >= minReward && score.correct >= least ? [Number(index)] : [];
  });
}

async function ofEvaluation(folder: string, minReward: number): Promise<AgentDemonstration[]> {
  if (minReward > 1) {
    const message = `--min-reward ${minReward}: an evaluation records whether answers are correct (0 to 1), not rewards: give at most 1`;
    throw new MgrpoError("config-invalid", message);
  }
  // Without handlers, unhandled events wait for the command that resumes the evaluation.
  const cloud = await startLocalCloud({ directory: join(folder, EVALUATION_CLOUD) });
  try {
    const store = cloud.direct;
    const key = objectKeys.config(EVALUATION_RUN);
    const bytes = await store.objects.get(key);
    if (!bytes) {
      const message = `--from-run ${folder}: no evaluation has begun in this folder; a run is given by its name`;
      throw new MgrpoError("not-found", message);
    }
    const config = parseJson(RunConfig, bytes, key);
    const jobs = (await readJobs(store, EVALUATION_RUN)).filter(({ state }) => state === "done");
    if (jobs.length === 0) {
      const message = `--from-run ${folder}: the evaluation has not finished: run its command again`;
      throw new MgrpoError("not-found", message);
    }
    const found = await Promise.all(jobs.map((job) => ofJob(store, config, job, folder, minReward)));
    return found.flat();
  } finally {
    await cloud.close();
  }
}

async function ofJob(store: Store, config: RunConfig, job: JobRecord, folder: string, minReward: number) {
  const { name, benchmark } = suiteOf(config, job.suite);
  if (benchmark !== "jsonl") {
    const what =
      benchmark === undefined
        ? "questions that may be held out"
        : `questions of benchmark ${benchmark}, which must not be trained on`;
    throw new MgrpoError(
      "config-invalid",
      `--from-run ${folder}: suite '${name}' asks ${what}: evaluate on a file of other questions (--suite <file>.jsonl)`,
    );
  }
  const { questions } = await resultOf({ job, store });
  const found: AgentDemonstration[] = [];
  for (const [group, tally] of questions.entries()) {
    if (!isEveryAnswerCorrect(tally, job.runs.length, minReward)) continue;
    for (const rollout of job.runs.keys()) {
      const step = addressStep(config, job.team);
      found.push(
        ...(await ofRollout(store, config, { run: EVALUATION_RUN, phase: `eval:${job.job}`, step, group, rollout })),
      );
    }
  }
  return found;
}

/**
 * The store has only the sum of a question's n scores, each in [0, 1]. If it is within 1 - x of n, each is at least x; if it
 * is above n - 1, each is above 0. An answer without a score, because the judge failed, may be wrong.
 */
function isEveryAnswerCorrect({ n, correct }: Tally, runs: number, minReward: number): boolean {
  return n === runs && n - correct <= 1 - minReward && n - correct < 1;
}

async function ofRollout(store: Store, config: RunConfig, address: RolloutAddress): Promise<AgentDemonstration[]> {
  const stored = await readRollout(store, address);
  if (stored?.outcome.status !== "finished") return [];
  const { outcome, invocations } = stored;
  const { run, step, group, rollout } = address;
  const where = `rollout ${step}/${group}/${rollout} of '${run}'`;
  const conversations = [
    { agent: config.main, conversation: outcome.conversation, trajectories: mainTrajectories(outcome) },
    ...[...invocations.values()].map(({ request, conversation, trajectory }) => {
      return { agent: request.agent, conversation, trajectories: [trajectory] };
    }),
  ].filter(({ conversation }) => conversation.stop === "answered");
  const found = conversations.map(async ({ agent, conversation, trajectories }): Promise<AgentDemonstration> => {
    const text = { agent, where, demonstration: asDemonstration(conversation) };
    return outcome.app ? { ...text, sampled: await sampledBranches(store, config, agent, trajectories) } : text;
  });
  return Promise.all(found);
}

async function sampledBranches(
  store: Store,
  { run, agents }: RunConfig,
  agent: string,
  trajectories: readonly AnyTrajectory[],
): Promise<SampledBranches> {
  const { files } = await readManifest(store, run, ownerOf(agents, agent), 0);
  const sampled = trajectories.flatMap((one) => ("actions" in one && one.actions.length > 0 ? [one] : []));
  // Agents behind an API have no tokenizer here, and no examples.
  return { examples: examplesOfBranches(sampled), tokenizerSha256: files["tokenizer.json"]?.sha256 ?? "" };
}

/** A turn that branches share is trained on in the first of them. In the others it is context, and follows the same prompt. */
export function examplesOfBranches(branches: readonly Pick<Trajectory, "tokens" | "actions">[]): Example[] {
  const examples: Example[] = [];
  for (const { tokens, actions: turns } of branches) {
    const [start = 0] = turns[0] ?? [];
    const isBefore = ({ tokens: earlier, turns: [first] }: Example) =>
      first !== undefined && first[0] < start && earlier.slice(0, first[1]).every((token, t) => token === tokens[t]);
    const before = examples.find(isBefore);
    const promptTokens = before && (before.promptTokens ?? before.turns[0]?.[0]);
    examples.push({ tokens, turns, ...(promptTokens !== undefined && { promptTokens }) });
  }
  return examples;
}

function asDemonstration({ prompt, turns }: Conversation): Demonstration {
  return {
    prompt,
    turns: turns.map(({ text, responses }) => ({ text, responses: responses.map((response) => response.text) })),
  };
}
