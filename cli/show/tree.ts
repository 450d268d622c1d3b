/**
 * @file A rollout as a tree: turns -> tool calls and delegations -> their turns, with rewards and advantages as tags; and the group above it.
 * Pure data, drawn by show/text.ts and ui/app. The output of models and pages is always plain text, never markup.
 */
import { algorithmOf } from "../../core/contracts/algorithm-overrides.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Question } from "../../core/contracts/question.ts";
import type {
  AgentBatch,
  GroupRecord,
  RolloutScore,
  ScoredInvocation,
  ScoredRollout,
} from "../../core/contracts/records.ts";
import { callPathOf, type Invocation, type Outcome } from "../../core/contracts/rollout.ts";
import { latencyName, type TurnLatency } from "../../core/contracts/telemetry.ts";
import { trajectoryWeights } from "../../core/mgrpo/batch.ts";
import { mainReward, subReward } from "../../core/mgrpo/reward.ts";
import { whyNoSignal } from "../../core/monitoring/group-signal.ts";
import { callerCredits, isWellFormed } from "../../core/training/score.ts";
import { learningAgents, trainedBatch } from "../../core/training/step-plan.ts";
import type { Tag, Tree } from "../../ui/views.ts";
import type { Latencies } from "../conversations.ts";
import type { HeldOutRollout } from "../held-out-scores.ts";
import { branchTrees, countLines, earlierTurns, type TurnTexts } from "./app-tree.ts";
import { plain } from "./plain-tag.ts";
import { ending, turnTrees } from "./turns.ts";

export interface RolloutParts {
  readonly index: number;
  readonly config: Pick<RunConfig, "main" | "agents" | "algorithm">;
  readonly question: Question;
  /** The recipe's note on the question. */
  readonly note?: string | undefined;
  readonly group: GroupRecord;
  readonly outcome: Outcome;
  readonly invocations: ReadonlyMap<string, Invocation>;
  readonly latencies?: Latencies;
  /** Of a rollout that an app ran: the texts of the main agent's branches, as far as they are known. */
  readonly branchTexts?: ReadonlyMap<number, TurnTexts>;
}

export function rolloutTree(parts: RolloutParts): Tree {
  const { outcome, group, index, question } = parts;
  const { main } = parts.config;
  const title = `rollout ${group.step}/${group.group}/${index}`;
  if (outcome.status === "failed") {
    return { title, tags: [{ text: `lost: ${outcome.reason}`, tone: "bad" }], children: [] };
  }
  const score = group.rollouts[String(index)];
  const scored = score && !("excluded" in score) ? score : undefined;
  const { conversation, app } = outcome;
  const treeOf = (id: string) => invocationTree(parts, scored, id);
  const earlier = earlierTurns(outcome, parts.branchTexts);
  const latencies = parts.latencies?.get(latencyName(outcome.address, []));
  const turns = [...earlier, conversation.turns];
  const { branches, rest } = turnTrees(turns, invocationsOfMain(parts.invocations), treeOf, latencies);
  return {
    title,
    tags: rolloutTags(parts, score),
    note: parts.note,
    body: question.prompt,
    ...(branches.length === 1 && "tokens" in outcome.trajectory && { trajectory: "main" }),
    children: [
      ...(branches.length > 1 ? branchTrees(outcome, branches) : branches.flat()),
      ...rest,
      ...(app ? countLines(app, main) : []),
      ending(conversation, `reference: ${question.answer}`),
    ],
  };
}

function rolloutTags(parts: RolloutParts, score: RolloutScore | undefined): Tag[] {
  const { config, group, index } = parts;
  if (!score) return [{ text: "not scored yet", tone: "faint" }];
  if ("excluded" in score) return [{ text: `excluded: ${score.excluded}`, tone: "bad" }];
  return [...mainTags(parts, score), ...advantageTags(config, trainedBatch(config, group, config.main), index)];
}

/** A rollout of an evaluation, which has neither rewards nor advantages. */
export function heldOutTree(
  title: string,
  tags: readonly Tag[],
  { question, conversation, invocations }: HeldOutRollout,
): Tree {
  const treeOf = (id: string): Tree | undefined => {
    const found = invocations.get(id);
    return found && delegationTree(found, [], treeOf);
  };
  const { branches, rest } = turnTrees([conversation.turns], invocationsOfMain(invocations), treeOf);
  return {
    title,
    tags,
    children: [...branches.flat(), ...rest, ending(conversation, `reference: ${question.answer}`)],
  };
}

/** The invocations that the main agent made. An app's record does not say which turn made each: there they are placed by their tasks. */
const invocationsOfMain = (invocations: ReadonlyMap<string, Invocation>): ReadonlyMap<string, Invocation> =>
  new Map([...invocations].filter(([, { request }]) => request.callers === undefined));

export function groupTree(
  group: GroupRecord,
  config: Pick<RunConfig, "main" | "agents">,
  question: Question,
  note: string | undefined,
  children: readonly Tree[],
): Tree {
  const scores = Object.values(group.rollouts).filter((score): score is ScoredRollout => !("excluded" in score));
  const solved = scores.filter(({ correct }) => correct === 1).length;
  const finalized = group.finalized[config.main];
  return {
    title: `group ${group.step}/${group.group}`,
    tags: [
      { text: `${question.kind}, level ${question.level}`, tone: "faint" },
      { text: `${solved} of ${scores.length} correct`, tone: solved > 0 ? "good" : "bad" },
      ...(finalized ? [plain(`mean ${finalized.mean.toFixed(3)}, std ${finalized.std.toFixed(3)}`)] : []),
      ...noSignalTags(group, config),
    ],
    note,
    body: `${question.prompt}\nreference: ${question.answer}`,
    folded: true,
    children,
  };
}

/** Which trained agents learn nothing from a finalized group, and why. */
function noSignalTags(group: GroupRecord, config: Pick<RunConfig, "main" | "agents">): Tag[] {
  if (group.state === "open") return [];
  return learningAgents(config).flatMap((agent) => {
    const why = whyNoSignal(group, agent, config.main);
    return why === undefined ? [] : [{ text: `'${agent}' learns nothing: ${why}`, tone: "faint" }];
  });
}

/** A delegation with its reward R_S = b1*format + b2*correct + b3*expert (eq 5), its advantage (eq 12), and its turns. */
function invocationTree(parts: RolloutParts, scored: ScoredRollout | undefined, id: string): Tree | undefined {
  const found = parts.invocations.get(id);
  if (!found) return undefined;
  const { agent } = found.request;
  const index = scored?.invocations[agent]?.findIndex((one) => one.id === id) ?? -1;
  const score = scored?.invocations[agent]?.[index];
  const { address } = found.request;
  const tags: Tag[] = [
    ...(scored && score ? [invocationTag(parts, found, scored, score)] : []),
    ...(scored && score ? trainedTags(parts, scored, score, agent, index) : []),
  ];
  const treeOf = (deeper: string) => invocationTree(parts, scored, deeper);
  return delegationTree(found, tags, treeOf, parts.latencies?.get(latencyName(address, callPathOf(found.request))));
}

/** The advantage and weight of an invocation, or why it is not trained on: it is masked, or alignment dropped it. None if its agent is frozen. */
function trainedTags(
  { config, group, index: rollout }: RolloutParts,
  scored: ScoredRollout,
  score: ScoredInvocation,
  agent: string,
  index: number,
): Tag[] {
  if (!config.agents[agent]?.trained) return [];
  if (scored.masked) return [{ text: "not trained on: the main agent's rollout is masked", tone: "faint" }];
  if (score.masked) return [{ text: MASKED[`${score.masked}`], tone: "faint" }];
  const finalized = group.finalized[agent];
  const tags = advantageTags(config, finalized, `${rollout}/${index}`);
  return finalized && tags.length === 0 ? [{ text: "dropped by alignment", tone: "faint" }] : tags;
}

const MASKED = { true: "masked", caller: "reward unknown: a conversation that led to it was truncated" };

function invocationTag(
  { config, invocations }: RolloutParts,
  { request, conversation }: Invocation,
  scored: ScoredRollout,
  { reward, expert }: ScoredInvocation,
): Tag {
  const { subReward: b } = algorithmOf(config, request.agent);
  const wellFormed = isWellFormed(conversation);
  const experts = new Map(Object.values(scored.invocations).flatMap((own) => own.map((one) => [one.id, one.expert])));
  const judged = [...invocations.values()].map((one) => ({ invocation: one, expert: experts.get(one.id) ?? 0 }));
  const { correct } = callerCredits(config, judged, scored.correct)(request);
  const parts = `${b.format}·format + ${b.correct}·${rounded(correct)} correct + ${b.expert}·${rounded(expert)} expert`;
  return rewardTag(reward, subReward(wellFormed, correct, expert, b), wellFormed ? parts : "malformed");
}

function delegationTree(
  { id, request, conversation, trajectory }: Invocation,
  tags: readonly Tag[],
  treeOf: (id: string) => Tree | undefined,
  latencies?: readonly TurnLatency[],
): Tree {
  const { branches } = turnTrees([conversation.turns], new Map(), treeOf, latencies);
  return {
    title: `delegate → ${request.agent}`,
    tags: [...tags],
    body: conversation.prompt,
    ...("tokens" in trajectory && { trajectory: id }),
    children: [...branches.flat(), ending(conversation, "")],
  };
}

/** R_M = a1*format + a2*correct (eq 4). */
function mainTags({ config }: RolloutParts, scored: ScoredRollout): Tag[] {
  const { mainReward: a } = algorithmOf(config, config.main);
  return [
    scored.correct === 1
      ? { text: "correct", tone: "good" }
      : { text: scored.correct > 0 ? `${rounded(scored.correct)} correct` : "wrong", tone: "bad" },
    rewardTag(
      scored.reward,
      mainReward(scored.wellFormed, scored.correct, a),
      scored.wellFormed ? `${a.format}·format + ${a.correct}·${rounded(scored.correct)} correct` : "malformed",
    ),
    ...(scored.masked ? [{ text: "masked", tone: "faint" as const }] : []),
  ];
}

/** `sum`: of the parts. It exceeds the reward by the overlong penalty. */
function rewardTag(reward: number, sum: number, parts: string): Tag {
  const penalty = sum - reward > 1e-9 ? ` - ${(sum - reward).toFixed(3)} overlong` : "";
  const text = `reward ${reward.toFixed(3)} = ${parts}${penalty}`;
  return { text, tone: reward > 0.5 ? "good" : reward > 0 ? "plain" : "bad" };
}

/** None for a trajectory that is not trained on. */
function advantageTags(
  { algorithm }: Pick<RunConfig, "algorithm">,
  finalized: AgentBatch | undefined,
  trajectory: string | number,
): Tag[] {
  if (!finalized) return [];
  const i = finalized.trajectories.indexOf(trajectory);
  const advantage = finalized.advantages[i];
  if (advantage === undefined) return [];
  const weight = trajectoryWeights(finalized)[i] ?? 0;
  const turns = finalized.turns?.[i] ?? [];
  const text = `advantage ${signed(advantage)}${algorithm.advantageScale === "batch" ? ", not yet divided by the batch's std" : ""}`;
  return [
    ...(turns.length > 0 ? [{ text: `turns ${turns.map(signed).join(" ")}`, tone: "faint" as const }] : []),
    { text, tone: advantage > 0 ? "good" : advantage < 0 ? "bad" : "plain" },
    { text: `weight ${weight.toFixed(3)}`, tone: "faint" },
  ];
}

const rounded = (value: number): number => Number(value.toFixed(3));

const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(3)}`;
