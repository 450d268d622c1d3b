/** @file Warnings about the steps of a run, one line each. */
import { algorithmOf } from "../core/contracts/algorithm-overrides.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { ownerOf } from "../core/contracts/shared-policy.ts";
import { shareAboveTarget } from "../core/mgrpo/alignment.ts";
import { captures } from "../core/monitoring/shared-policy.ts";
import type { StepSummary } from "../core/monitoring/step-summary.ts";
import { mean, median } from "../core/statistics.ts";
import { MGRPO, quotedPath } from "./terminal/name.ts";

/** Number of steps of a window, over which shares, means and medians are taken. */
const WINDOW = 10;
/** Eq 11: P(d_k <= d) should be about 0.99. */
const ABOVE_TARGET = 0.01;
/** Number of consecutive steps without variance that cause a warning. */
const STREAK = 3;

/** A gradient norm this many times the median of the window is a jump. */
const GRADIENT_JUMP = 10;
/** KL between sampler and trainer, in nats per token. At a higher one, the tokens are far from on-policy. */
const RUNAWAY_KL = 0.1;
/** An entropy below both this share of that of the first steps and this many nats per token has collapsed. */
const COLLAPSED = { share: 0.1, nats: 0.05 };
/** Change of the mean reward between two windows: above RISE it rises, below FLAT in magnitude it stays the same. */
const RISE = 0.1;
const FLAT = 0.005;

/** KL between the sampler of a quantized base and its trainer, in nats per token: without rounded activations it is below 1e-6. */
const QUANTIZED_KL = 0.001;

/** What the user should look at after the newest step. `steps`: in order, without those whose scores have expired. */
export function stepWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  return [
    ...firstStepWarnings(config, steps),
    ...streakWarnings(config, steps),
    ...alignmentWarnings(config, steps),
    ...quantizationWarnings(config, steps),
    ...gradientWarnings(config, steps),
    ...klWarnings(config, steps),
    ...entropyWarnings(config, steps),
    ...captureWarnings(config, steps),
    ...plateauWarnings(config, steps),
  ];
}

/** The warnings after every step, in order. */
export function runWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  return steps.flatMap((_, i) => stepWarnings(config, steps.slice(0, i + 1)));
}

/** If the first step has no learning signal for the main agent, later steps usually have none either. */
function firstStepWarnings(
  { run, recipe, main, agents }: RunConfig,
  [first, second]: readonly StepSummary[],
): string[] {
  if (first?.step !== 0 || second || !agents[main]?.trained || !hasNoVariance(first)) return [];
  const look = `look at the rollouts: ${MGRPO} show ${run} 0`;
  if (first.wellFormed > 0) {
    const remedy = isCorrect(first) ? "ask harder questions" : "ask easier questions, or reward parts of an answer";
    return [
      `the first step taught '${main}' nothing: all rollouts of a question have the same reward; ${look}; ${remedy}`,
    ];
  }
  return [
    `the first step taught '${main}' nothing: no rollout is well-formed, so all have the same reward. ${agents[main]?.model} does not know how to call tools and answer; ${look}; then teach it from demonstrations first: ${MGRPO} sft ${quotedPath(recipe)} --to <folder> (docs/sft.md), or take a model that knows tool calls and describe its role in agents.${main}.system`,
  ];
}

/** Whether no group of a step has variance. False if all rollouts were lost: they say nothing about the model. */
const hasNoVariance = ({ groups, rollouts, zeroVariance }: StepSummary) => rollouts > 0 && zeroVariance === groups;
const isWrong = (step: StepSummary) => hasNoVariance(step) && step.correct === 0 && step.wellFormed > 0;
const isCorrect = (step: StepSummary) => hasNoVariance(step) && step.correct === 1;
/** All other steps without variance, such as those whose rollouts are all malformed or all partly correct. */
const isConstant = (step: StepSummary) => hasNoVariance(step) && !isWrong(step) && !isCorrect(step);

/** One line per streak, at its third step. None if the main agent is frozen. */
function streakWarnings({ run, recipe, main, agents }: RunConfig, steps: readonly StepSummary[]): string[] {
  const newest = steps.at(-1);
  if (!newest || !agents[main]?.trained) return [];
  const since = newest.step + 1 - STREAK;
  const share = Math.round(100 * newest.wellFormed);
  const look = `look at the rollouts: ${MGRPO} show ${run} ${newest.step}`;
  if (streak(steps, isWrong) === STREAK) {
    return [
      `since step ${since} (counted from 0), every rollout is wrong, though ${share}% are well-formed: no group has variance, so '${main}' learns nothing and does not recover by itself; ${look}; then start again with a lower agents.${main}.optimizer.learningRate, a longer warm start (${MGRPO} sft ${quotedPath(recipe)} --to <folder>, docs/sft.md), or easier levels first (curriculum)`,
    ];
  }
  if (streak(steps, isCorrect) === STREAK) {
    return [
      `since step ${since} (counted from 0), every rollout is correct: no group has variance, so '${main}' learns nothing: the questions are too easy; ask harder levels (curriculum), or end the run here`,
    ];
  }
  if (streak(steps, isConstant) === STREAK) {
    const reward = newest.reward[main]?.toFixed(3);
    return [
      `since step ${since} (counted from 0), the rewards of a question's rollouts are all equal, ${reward} on average, and ${share}% of the rollouts are well-formed: '${main}' learns nothing; ${look}; a reward that pays parts of an answer, or a longer warm start, makes them differ`,
    ];
  }
  return [];
}

/** How many of the newest steps in a row meet the condition. */
function streak(steps: readonly StepSummary[], meets: (step: StepSummary) => boolean): number {
  return steps.length - 1 - steps.findLastIndex((step) => !meets(step));
}

/** One line for each trained sub-agent that too many recent rollouts called more than d times; after every tenth step. */
function alignmentWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  if (config.algorithm.alignment.mode !== "resample" || steps.length === 0 || steps.length % WINDOW > 0) return [];
  const recent = steps.slice(-WINDOW);
  const trained = Object.keys(recent[0]?.calls ?? {}).filter((sub) => config.agents[sub]?.trained);
  return trained.flatMap((sub) => {
    const { d } = algorithmOf(config, sub).alignment;
    const setting = `${config.agents[sub]?.algorithm?.alignment ? `agents.${sub}.` : ""}algorithm.alignment.d`;
    const share = shareAboveTarget(totals(recent.map(({ calls }) => calls[sub] ?? [])), d);
    if (share <= ABOVE_TARGET) return [];
    const percent = (100 * share).toFixed(1);
    return `${percent}% of the rollouts of the last ${recent.length} steps called '${sub}' more than d = ${d} times (eq 11 allows 1%); alignment randomly drops all but d calls of each: raise ${setting}`;
  });
}

/** One line for each quantized agent, after the first step whose sampler is far from the trainer. */
function quantizationWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  const newest = steps.at(-1);
  if (!newest) return [];
  const isFar = ({ training }: StepSummary, agent: string) => (training[agent]?.kl ?? 0) > QUANTIZED_KL;
  return Object.entries(config.agents).flatMap(([agent, { engine }]) => {
    if (engine.quantization === "none" || algorithmOf(config, agent).tisCap !== null || !isFar(newest, agent))
      return [];
    if (steps.slice(0, -1).some((step) => isFar(step, agent))) return [];
    const kl = newest.training[agent]?.kl.toPrecision(2);
    return `the sampler of '${agent}', whose base is ${engine.quantization}, is ${kl} nats per token from its trainer: set algorithm.tisCap, to 2 for example, or agents.${ownerOf(config.agents, agent)}.engine.quantization to none`;
  });
}

/** One line for each agent whose gradient norm is far above what it was. */
function gradientWarnings({ agents }: RunConfig, steps: readonly StepSummary[]): string[] {
  const newest = steps.at(-1);
  if (!newest) return [];
  return Object.keys(newest.training).flatMap((agent) => {
    const norms = steps.flatMap(({ training }) => training[agent]?.gradientNorm ?? []);
    const before = median(norms.slice(-1 - WINDOW, -1));
    const norm = norms.at(-1) ?? 0;
    const isNewest = newest.training[agent] !== null;
    if (!isNewest || norms.length <= WINDOW || !(norm > GRADIENT_JUMP * before) || before === 0) return [];
    return `the gradient norm of '${agent}' jumped to ${norm.toPrecision(3)}, from a median of ${before.toPrecision(3)} over ${WINDOW} steps: if its reward falls now, lower agents.${ownerOf(agents, agent)}.optimizer.learningRate or maxGradientNorm`;
  });
}

/** One line for each agent when the KL of its sampler and trainer passes the limit, or doubles beyond it. */
function klWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  const newest = steps.at(-1);
  if (!newest) return [];
  return Object.keys(newest.training).flatMap((agent) => {
    const kls = steps.map(({ training }) => training[agent]?.kl ?? 0);
    if (!isRunaway(kls)) return [];
    const kl = kls.at(-1) ?? 0;
    const before = Math.max(0, ...kls.slice(0, -1));
    const { epochs, tisCap } = algorithmOf(config, agent);
    const remedies = `lower agents.${ownerOf(config.agents, agent)}.optimizer.learningRate${epochs > 1 ? " or algorithm.epochs" : ""}${tisCap === null ? ", or set algorithm.tisCap" : ""}`;
    return `the KL between sampler and trainer of '${agent}' is ${kl.toPrecision(3)} nats per token, ${before.toPrecision(3)} at most before: its policy drifts away from the one that sampled; ${remedies}`;
  });
}

/** Whether the newest KL is above the limit, and at least twice the last one that was reported. */
function isRunaway(kls: readonly number[]): boolean {
  let reported = 0;
  let isNewest = false;
  for (const kl of kls) {
    isNewest = kl > RUNAWAY_KL && kl >= 2 * reported;
    if (isNewest) reported = kl;
  }
  return isNewest;
}

/** One line for each agent, once: its samples have become nearly deterministic, so the rollouts of a group hardly differ. */
function entropyWarnings({ agents }: RunConfig, steps: readonly StepSummary[]): string[] {
  const newest = steps.at(-1);
  if (!newest) return [];
  return Object.keys(newest.training).flatMap((agent) => {
    const all = steps.flatMap(({ training }) => training[agent]?.entropy ?? []);
    const first = median(all.slice(0, WINDOW));
    const limit = Math.min(COLLAPSED.share * first, COLLAPSED.nats);
    const isNewest = newest.training[agent]?.entropy !== undefined;
    if (!isNewest || all.length <= WINDOW || all.findIndex((one, i) => i >= WINDOW && one < limit) !== all.length - 1)
      return [];
    return `the entropy of '${agent}' collapsed to ${all.at(-1)?.toPrecision(2)} nats per token, from ${first.toPrecision(2)} in its first ${WINDOW} steps: its rollouts hardly differ any more; set algorithm.entropy, or lower agents.${ownerOf(agents, agent)}.optimizer.learningRate`;
  });
}

/** One line for each agent whose reward falls while another agent dominates the policy that they share. */
function captureWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  return captures(config, steps).map(({ owner, by, part, loser, from, to }) => {
    const share = Math.round(100 * part);
    return `'${by}' has ${share}% of the sum of the gradient norms of the agents that share the policy of '${owner}', and the reward of '${loser}' fell from ${from.toFixed(3)} to ${to.toFixed(3)}: raise agents.${loser}.share, or give '${loser}' a policy of its own`;
  });
}

/**
 * Every WINDOW steps: one agent's reward rose over the last two windows, and that of another trained agent stayed the same. An agent that
 * was never called in one of the two did neither.
 */
function plateauWarnings({ agents }: RunConfig, steps: readonly StepSummary[]): string[] {
  if (steps.length < 2 * WINDOW || steps.length % WINDOW > 0) return [];
  const rise = (agent: string) => {
    const meanOf = (part: readonly StepSummary[]) => mean(part.flatMap(({ reward }) => reward[agent] ?? []));
    return meanOf(steps.slice(-WINDOW)) - meanOf(steps.slice(-2 * WINDOW, -WINDOW));
  };
  const trained = Object.keys(agents).filter((name) => agents[name]?.trained);
  const rising = trained.filter((name) => rise(name) > RISE);
  const flat = trained.filter((name) => Math.abs(rise(name)) < FLAT);
  if (rising.length === 0) return [];
  return flat.map(
    (name) =>
      `over the last ${2 * WINDOW} steps, the reward of ${rising.map((one) => `'${one}'`).join(", ")} rose and that of '${name}' did not move: see whether its groups have variance, and what its reward is for`,
  );
}

function totals(histograms: readonly (readonly number[])[]): number[] {
  const longest = Math.max(...histograms.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) =>
    histograms.reduce((total, histogram) => total + (histogram[i] ?? 0), 0),
  );
}
