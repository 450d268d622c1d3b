/** @file Warnings about the steps of a run, one line each. */
import { algorithmOf } from "../core/contracts/algorithm-overrides.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { ownerOf } from "../core/contracts/shared-policy.ts";
import { shareAboveTarget } from "../core/mgrpo/alignment.ts";
import { detectPolicyCapture } from "../core/monitoring/shared-policy.ts";
import type { StepSummary } from "../core/monitoring/step-summary.ts";
import { mean, median } from "../core/statistics.ts";
import { MGRPO, quotedPath } from "./terminal/name.ts";

/** Number of steps of a window, over which shares, means and medians are taken. */
const WINDOW = 10;
/** Eq 11: P(d_k <= d) should be about 0.99. */
const MAX_SHARE_ABOVE_TARGET = 0.01;
/** Number of consecutive zero-variance steps, all of one kind (wrong, correct or constant), that cause a warning. */
const STREAK = 3;

/** A gradient norm of more than this many times the median of the window is a jump. */
const GRADIENT_JUMP = 10;
/** KL between sampler and trainer, in nats per token. Above it, the sampled tokens are far from on-policy. */
const RUNAWAY_KL = 0.1;
/** An entropy has collapsed if it is below both `nats` (per token) and `share` of the median of the first window. */
const COLLAPSED = { share: 0.1, nats: 0.05 };
/** Change of the mean reward between two windows: above RISE it rises, below FLAT in magnitude it stays the same. */
const RISE = 0.1;
const FLAT = 0.005;

/** Tolerated KL between the sampler of a quantized base and its trainer, in nats per token: without rounded activations it is below 1e-6. */
const MAX_QUANTIZED_KL = 0.001;

type Stats = StepSummary["training"][string];

/** What is known of an agent's training before a step. */
interface AgentPast {
  readonly highestKl: number;
  /** The last KL that was reported as runaway; 0: none was. */
  readonly reportedKl: number;
  /** Of the latest steps, at most a window of them. */
  readonly gradientNorms: readonly number[];
  /** Of the first steps, at most a window of them. */
  readonly firstEntropies: readonly number[];
  readonly hasCollapsed: boolean;
}

const NO_PAST: AgentPast = { highestKl: 0, reportedKl: 0, gradientNorms: [], firstEntropies: [], hasCollapsed: false };

/** The newest step, and what its warnings need from the earlier ones. Its size does not grow with their number. */
interface LastSteps {
  /** Number of steps, including the newest. */
  readonly count: number;
  /** The steps of the last two windows, including the newest. */
  readonly recent: readonly StepSummary[];
  readonly newest: StepSummary;
  /** By agent, in the order of the newest step. */
  readonly training: ReadonlyMap<string, { readonly stats: Stats; readonly past: AgentPast }>;
}

/** What the user should look at after the newest step. `steps`: in order, without those whose scores have expired. */
export function stepWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  const last = lastSteps(steps).at(-1);
  return last ? warningsAfter(config, last) : [];
}

/** The warnings after every step, in order. Takes time in proportion to the number of steps. */
export function runWarnings(config: RunConfig, steps: readonly StepSummary[]): string[] {
  return lastSteps(steps).flatMap((last) => warningsAfter(config, last));
}

function warningsAfter(config: RunConfig, last: LastSteps): string[] {
  return [
    ...firstStepWarnings(config, last),
    ...streakWarnings(config, last),
    ...alignmentWarnings(config, last),
    ...quantizationWarnings(config, last),
    ...gradientWarnings(config, last),
    ...klWarnings(config, last),
    ...entropyWarnings(config, last),
    ...captureWarnings(config, last),
    ...plateauWarnings(config, last),
  ];
}

/** One per step, with that step as the newest. */
function lastSteps(steps: readonly StepSummary[]): LastSteps[] {
  const pasts = new Map<string, AgentPast>();
  return steps.map((newest, i) => {
    const count = i + 1;
    const training = Object.entries(newest.training).map(([agent, stats]) => {
      const past = pasts.get(agent) ?? NO_PAST;
      pasts.set(agent, withStep(past, stats));
      return [agent, { stats, past }] as const;
    });
    const recent = steps.slice(Math.max(0, count - 2 * WINDOW), count);
    return { count, recent, newest, training: new Map(training) };
  });
}

function withStep(past: AgentPast, stats: Stats): AgentPast {
  const { kl = 0, entropy, gradientNorm } = stats ?? {};
  const isKept = entropy !== undefined && past.firstEntropies.length < WINDOW;
  return {
    highestKl: Math.max(past.highestKl, kl),
    reportedKl: isRunaway(past, kl) ? kl : past.reportedKl,
    gradientNorms: [...past.gradientNorms, gradientNorm ?? []].flat().slice(-WINDOW),
    firstEntropies: isKept ? [...past.firstEntropies, entropy] : past.firstEntropies,
    hasCollapsed: past.hasCollapsed || isCollapsed(past, entropy),
  };
}

/** If the first step has no learning signal for the main agent, later steps usually have none either. */
function firstStepWarnings(config: RunConfig, { count, newest: first }: LastSteps): string[] {
  const { run, recipe, main, agents } = config;
  if (first.step !== 0 || count > 1 || !agents[main]?.trained) return [];
  if (isUncalled(config, first)) {
    return [
      `the first step taught '${main}' nothing: the app gave answers and never called '${main}': does it use the base URL, key and model of each attempt?`,
    ];
  }
  if (!hasNoVariance(first)) return [];
  const look = `look at the rollouts: ${MGRPO} show ${run} 0`;
  if (first.wellFormed > 0) {
    const remedy = isCorrect(first) ? "ask harder questions" : "ask easier questions, or give partial credit";
    return [
      `the first step taught '${main}' nothing: all rollouts of a question have the same reward; ${look}; ${remedy}`,
    ];
  }
  return [
    `the first step taught '${main}' nothing: no rollout is well-formed; ${look}; then teach it from demonstrations first: ${MGRPO} sft ${quotedPath(recipe)} --to <folder> (docs/sft.md), or take a model that knows tool calls`,
  ];
}

/** Whether an app finished a step's rollouts without the main agent. */
const isUncalled = ({ runner, main }: RunConfig, { wellFormed, training }: StepSummary) =>
  runner !== "native" && wellFormed > 0 && training[main]?.actionTokens === 0;

/** Whether no group of a step has variance. False if all rollouts were lost: they say nothing about the model. */
const hasNoVariance = ({ groups, rollouts, zeroVariance }: StepSummary) => rollouts > 0 && zeroVariance === groups;
const isWrong = (step: StepSummary) => hasNoVariance(step) && step.correct === 0 && step.wellFormed > 0;
const isCorrect = (step: StepSummary) => hasNoVariance(step) && step.correct === 1;
/** All other zero-variance steps, such as those whose rollouts are all malformed or all partly correct. */
const isConstant = (step: StepSummary) => hasNoVariance(step) && !isWrong(step) && !isCorrect(step);

/** One line per streak, at its third step. None if the main agent is frozen. */
function streakWarnings({ run, recipe, main, agents }: RunConfig, { recent, newest }: LastSteps): string[] {
  if (!agents[main]?.trained) return [];
  const since = newest.step + 1 - STREAK;
  const share = Math.round(100 * newest.wellFormed);
  const look = `look at the rollouts: ${MGRPO} show ${run} ${newest.step}`;
  if (streak(recent, isWrong) === STREAK) {
    return [
      `since step ${since} (counted from 0), every rollout is wrong, though ${share}% are well-formed, so '${main}' learns nothing; ${look}; then start again with a lower agents.${main}.optimizer.learningRate, a longer warm start (${MGRPO} sft ${quotedPath(recipe)} --to <folder>), or easier levels first (curriculum)`,
    ];
  }
  if (streak(recent, isCorrect) === STREAK) {
    return [
      `since step ${since} (counted from 0), every rollout is correct, so '${main}' learns nothing: the questions are too easy; ask harder ones (curriculum), or end the run`,
    ];
  }
  if (streak(recent, isConstant) === STREAK) {
    const reward = newest.reward[main]?.toFixed(3);
    return [
      `since step ${since} (counted from 0), the rewards of a question's rollouts are all equal, ${reward} on average, and ${share}% are well-formed, so '${main}' learns nothing; ${look}; then give partial credit, or a longer warm start`,
    ];
  }
  return [];
}

/** How many of the newest steps in a row meet the condition. */
function streak(steps: readonly StepSummary[], meets: (step: StepSummary) => boolean): number {
  return steps.length - 1 - steps.findLastIndex((step) => !meets(step));
}

/** One line for each trained sub-agent that too many recent rollouts called more than d times; after every tenth step. */
function alignmentWarnings(config: RunConfig, { count, recent }: LastSteps): string[] {
  if (config.algorithm.alignment.mode !== "resample" || count % WINDOW > 0) return [];
  const latest = recent.slice(-WINDOW);
  const trained = Object.keys(latest[0]?.calls ?? {}).filter((sub) => config.agents[sub]?.trained);
  return trained.flatMap((sub) => {
    const { d } = algorithmOf(config, sub).alignment;
    const setting = `${config.agents[sub]?.algorithm?.alignment ? `agents.${sub}.` : ""}algorithm.alignment.d`;
    const share = shareAboveTarget(totals(latest.map(({ calls }) => calls[sub] ?? [])), d);
    if (share <= MAX_SHARE_ABOVE_TARGET) return [];
    const percent = (100 * share).toFixed(1);
    return `${percent}% of the rollouts of the last ${latest.length} steps called '${sub}' more than d = ${d} times (eq 11 allows 1%); alignment randomly drops all but d of them: raise ${setting}`;
  });
}

/** One line for each quantized agent, after the first step whose sampler is far from the trainer. */
function quantizationWarnings(config: RunConfig, { training }: LastSteps): string[] {
  return Object.entries(config.agents).flatMap(([agent, { engine }]) => {
    const { stats, past = NO_PAST } = training.get(agent) ?? {};
    const kl = stats?.kl ?? 0;
    if (engine.quantization === "none" || algorithmOf(config, agent).tisCap !== null) return [];
    if (kl <= MAX_QUANTIZED_KL || past.highestKl > MAX_QUANTIZED_KL) return [];
    return `the sampler of '${agent}', whose base is ${engine.quantization}, is ${kl.toPrecision(2)} nats per token from its trainer: set algorithm.tisCap=2 or agents.${ownerOf(config.agents, agent)}.engine.quantization=none`;
  });
}

/** One line for each agent whose gradient norm is far above what it was. */
function gradientWarnings({ agents }: RunConfig, { training }: LastSteps): string[] {
  return [...training].flatMap(([agent, { stats, past }]) => {
    const before = median(past.gradientNorms);
    const norm = stats?.gradientNorm ?? 0;
    if (past.gradientNorms.length < WINDOW || !(norm > GRADIENT_JUMP * before) || before === 0) return [];
    return `the gradient norm of '${agent}' jumped to ${norm.toPrecision(3)}, from a median of ${before.toPrecision(3)} over ${WINDOW} steps: if its reward falls now, lower agents.${ownerOf(agents, agent)}.optimizer.learningRate or maxGradientNorm`;
  });
}

/** One line for each agent when the KL between its sampler and trainer first passes the limit, and each time it has doubled since the last line. */
function klWarnings(config: RunConfig, { training }: LastSteps): string[] {
  return [...training].flatMap(([agent, { stats, past }]) => {
    const kl = stats?.kl ?? 0;
    if (!isRunaway(past, kl)) return [];
    const { epochs, tisCap } = algorithmOf(config, agent);
    const remedies = `lower agents.${ownerOf(config.agents, agent)}.optimizer.learningRate${epochs > 1 ? " or algorithm.epochs" : ""}${tisCap === null ? ", or set algorithm.tisCap" : ""}`;
    return `the KL between sampler and trainer of '${agent}' is ${kl.toPrecision(3)} nats per token, and was at most ${past.highestKl.toPrecision(3)} before: its policy drifts away from the one that sampled; ${remedies}`;
  });
}

/** Whether a KL is above the limit, and at least twice the last one that was reported. */
const isRunaway = ({ reportedKl }: AgentPast, kl: number): boolean => kl > RUNAWAY_KL && kl >= 2 * reportedKl;

/** One line for each agent, once: its samples have become nearly deterministic, so the rollouts of a group hardly differ. */
function entropyWarnings({ agents }: RunConfig, { training }: LastSteps): string[] {
  return [...training].flatMap(([agent, { stats, past }]) => {
    if (past.hasCollapsed || !isCollapsed(past, stats?.entropy)) return [];
    return `the entropy of '${agent}' collapsed to ${stats?.entropy?.toPrecision(2)} nats per token, from ${median(past.firstEntropies).toPrecision(2)} in its first ${WINDOW} steps: set algorithm.entropy, or lower agents.${ownerOf(agents, agent)}.optimizer.learningRate`;
  });
}

/** Whether an entropy is below the limit that the first window sets. Never before that window is complete. */
function isCollapsed({ firstEntropies }: AgentPast, entropy: number | undefined): boolean {
  if (entropy === undefined || firstEntropies.length < WINDOW) return false;
  return entropy < Math.min(COLLAPSED.share * median(firstEntropies), COLLAPSED.nats);
}

/** One line for each agent whose reward falls while another agent dominates the policy that they share. */
function captureWarnings(config: RunConfig, { count, recent }: LastSteps): string[] {
  if (count % WINDOW > 0) return [];
  return detectPolicyCapture(config, recent).map(({ owner, dominant, part, loser, from, to }) => {
    const share = Math.round(100 * part);
    return `'${dominant}' has ${share}% of the gradient norms in the policy of '${owner}', and the reward of '${loser}' fell from ${from.toFixed(3)} to ${to.toFixed(3)}: raise agents.${loser}.share, or give '${loser}' a policy of its own`;
  });
}

/**
 * Every WINDOW steps: one agent's reward rose over the last two windows, and that of another trained agent stayed the same. An agent that
 * was never called in one of the two did neither.
 */
function plateauWarnings({ agents }: RunConfig, { count, recent }: LastSteps): string[] {
  if (count < 2 * WINDOW || count % WINDOW > 0) return [];
  const change = (agent: string) => {
    const meanOf = (part: readonly StepSummary[]) => mean(part.flatMap(({ reward }) => reward[agent] ?? []));
    return meanOf(recent.slice(-WINDOW)) - meanOf(recent.slice(0, WINDOW));
  };
  const trained = Object.keys(agents).filter((name) => agents[name]?.trained);
  const rising = trained.filter((name) => change(name) > RISE);
  const flat = trained.filter((name) => Math.abs(change(name)) < FLAT);
  if (rising.length === 0) return [];
  return flat.map(
    (name) =>
      `over the last ${2 * WINDOW} steps, the reward of ${rising.map((one) => `'${one}'`).join(", ")} rose and that of '${name}' did not move: check whether its groups have variance, and what its reward measures`,
  );
}

/** The sum of the histograms, entry by entry. */
function totals(histograms: readonly (readonly number[])[]): number[] {
  const longest = Math.max(...histograms.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) =>
    histograms.reduce((total, histogram) => total + (histogram[i] ?? 0), 0),
  );
}
