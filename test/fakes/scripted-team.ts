/**
 * @file A scripted team on any store, without an engine: its config, questions and rewards, and the outcomes and manifests that its
 * workers would commit.
 */
import { createHash } from "node:crypto";
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import { RunConfig, type RunConfigInput } from "../../core/contracts/config.ts";
import type { Conversation } from "../../core/contracts/conversation.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { StartRun } from "../../core/contracts/messages.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { RunRecord, StepRecord } from "../../core/contracts/records.ts";
import type { Invocation, Outcome, RolloutAddress } from "../../core/contracts/rollout.ts";
import type { ObjectStore, Rewards } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";

export const sha = (value: Uint8Array | string) => createHash("sha256").update(value).digest("hex");
export const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

export const questions: Question[] = Array.from({ length: 10 }, (_, i) => ({
  id: `q${i}`,
  kind: "plain",
  level: 1 + (i % 2),
  prompt: `What is ${i}?`,
  answer: String(i),
  facts: null,
}));

/** The RUN item of an active run without a budget. */
export const runRecord = (part: Partial<RunRecord> = {}): RunRecord => ({
  ...{
    run: "test",
    status: "running",
    reason: "",
    step: 1,
    configSha256: "0".repeat(64),
    questionsSha256: "1".repeat(64),
  },
  ...{ startedAt: 0, maxHours: null, maxUsd: null },
  ...part,
});

export function teamConfig(input: Partial<RunConfigInput> = {}): RunConfig {
  return RunConfig.parse({
    run: "test",
    recipe: "scripted",
    steps: 3,
    questionsPerStep: 3,
    rolloutsPerQuestion: 3,
    agents: { main: { model: "m", delegates: ["searcher"] }, searcher: { model: "s" } },
    evaluation: { every: 2, suites: [{ name: "all" }, { name: "ends", when: "ends" }] },
    ...input,
  });
}

/** An answer is correct if it equals the question's. The expert gives 1 to tasks that end in "!", and 0.5 to others. */
export const rewards: Rewards = {
  correct: (question, { answer }) => (answer === question.answer ? 1 : 0),
  expert: (_question, _agent, { prompt }) => (prompt.endsWith("!") ? 1 : 0.5),
};

/** Uploads base files and questions, as the command line does. Returns the request for start-run. */
export async function prepare(objects: ObjectStore, config: RunConfig): Promise<StartRun> {
  const set = bytes({ train: questions, heldOut: [] });
  await objects.commit(objectKeys.questions(config.run), set);
  const bases: StartRun["bases"] = {};
  for (const agent of Object.keys(config.agents)) {
    const weights = new TextEncoder().encode(`weights of ${agent}`);
    await objects.commit(objectKeys.part(config.run, sha(weights)), weights);
    bases[agent] = { "model.safetensors": { sha256: sha(weights), bytes: weights.length } };
  }
  return { config, questionsSha256: sha(set), bases };
}

export function conversationOf(
  prompt: string,
  answer: string | null,
  stop: Conversation["stop"] = "answered",
): Conversation {
  return { prompt, turns: [], stop, answer, fault: stop === "malformed" ? "no call" : null };
}

/** One prompt token and one sampled token. */
const trajectory = (agent: string, version: number) => ({
  ...{ agent, version, tokens: [1, 2], logProbs: [-1] },
  actions: [[1, 2] as [number, number]],
});

/** Commits a rollout's invocations and outcome, which depend only on the arguments. Returns the outcome's key. */
export async function playRollout(
  objects: ObjectStore,
  config: RunConfig,
  step: StepRecord,
  group: number,
  rollout: number,
) {
  const address: RolloutAddress = { run: config.run, phase: "train", step: step.step, group, rollout };
  const questionId = step.groups[group] ?? "";
  const random = stream("play", questionId, step.step, rollout);
  const invocations: Extract<Outcome, { status: "finished" }>["invocations"] = [];
  for (let call = random.integer(3); call > 0; call--) {
    const id = sha(`${step.step} ${group} ${rollout} ${call}`).slice(0, 22);
    const request = {
      ...{ address, questionId, agent: "searcher", version: step.policy["searcher"] ?? -1, call, closedBook: false },
      task: random.uniform() < 0.5 ? "look!" : "look",
      sampling: { temperature: 1, topP: 1, topK: 0 },
    };
    const invocation: Invocation = {
      ...{ id, request, conversation: conversationOf(request.task, "found") },
      trajectory: trajectory("searcher", request.version),
    };
    const key = objectKeys.invocation(config.run, step.step, id);
    await objects.commit(key, bytes(invocation));
    invocations.push({ id, agent: "searcher", key, sha256: sha(bytes(invocation)) });
  }
  const answer = random.uniform() < 0.5 ? questionId.slice(1) : "wrong";
  const outcome: Outcome = {
    ...{ status: "finished", address, questionId, invocations },
    conversation: conversationOf("What?", answer),
    trajectory: trajectory(config.main, step.policy[config.main] ?? -1),
  };
  await objects.commit(objectKeys.outcome(address), bytes(outcome));
  return objectKeys.outcome(address);
}

/** Publishes a version as a trainer would: parts first, then the manifest. Returns the manifest's key. */
export async function publish(objects: ObjectStore, config: RunConfig, agent: string, version: number, trained = true) {
  const weights = new TextEncoder().encode(`weights of ${agent} ${trained ? version : version - 1}`);
  await objects.commit(objectKeys.part(config.run, sha(weights)), weights);
  const manifest: Manifest = {
    ...{ run: config.run, agent, version, trained, stats: null, seconds: null },
    files: { "model.safetensors": { sha256: sha(weights), bytes: weights.length } },
  };
  const key = objectKeys.manifest(config.run, agent, version);
  await objects.commit(key, bytes(manifest));
  return key;
}
