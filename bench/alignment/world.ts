/**
 * @file A searcher small enough to be trained thousands of times: tables of logits instead of a language model. The algorithm is
 * real: the searcher's reward, alignment, advantages, weights and loss are those of core/mgrpo. See docs/findings.md.
 *
 * A token's logits are those of its position, shared by both kinds of task, plus those of its position and kind. The correct token differs
 * between the kinds, so learning one interferes with the other, as in a language model that does both.
 *
 *   alike        every task is of one kind; questions need 0 to 20 calls
 *   by-question  questions that need one to three calls have tasks of kind 1, those that need more have tasks of kind 0
 *   by-rollout   half of each question's rollouts make one call of kind 1, the others 20 of kind 0
 *
 * Reports have 8 tokens. With lengths `unequal`, one large task takes the place of many small ones: a report has 40 tokens if its
 * question, or in `by-rollout` its rollout, needs at most three calls.
 */
import type { Random } from "../../core/random.ts";
import { sum } from "../../core/statistics.ts";

export const WORLDS = ["alike", "by-question", "by-rollout"] as const;
export type SyntheticWorld = (typeof WORLDS)[number];

export const LENGTHS = ["equal", "unequal"] as const;
export type ReportLengths = (typeof LENGTHS)[number];

/** Calls that the questions of `alike` and `by-question` need. Question q has the entry at q modulo the number of entries. */
export const COUNTS: readonly number[] = [0, 1, 2, 3, 5, 8, 13, 20];
/** The largest number of calls that counts as few. */
const FEW = 3;
/** Probability that a rollout of `alike` or `by-question` stops early, before each call after its first. */
const STOP_PROBABILITY = 0.03;
/** Calls of the rollouts in `by-rollout`: half make few, half make many. */
const BY_ROLLOUT = { few: 1, many: 20 };

const [SHORT, LONG] = [8, 40];
const VOCABULARY = 6;
const KINDS = 2;

/** Length of the longest report, in tokens. */
const longest = (lengths: ReportLengths): number => (lengths === "equal" ? SHORT : LONG);

/** A kind of task; also the correct token at each position of its report. */
export type Kind = number;

/** What one call asks for. */
export interface SyntheticCall {
  readonly kind: Kind;
  /** Length of the report, in tokens. */
  readonly length: number;
}

function taskOf(world: SyntheticWorld, lengths: ReportLengths, makesFewCalls: boolean): SyntheticCall {
  return { kind: makesFewCalls && world !== "alike" ? 1 : 0, length: makesFewCalls ? longest(lengths) : SHORT };
}

/** The calls of each rollout of a question. */
export function callsOf(
  world: SyntheticWorld,
  lengths: ReportLengths,
  question: number,
  rollouts: number,
  random: Random,
  counts: readonly number[] = COUNTS,
): SyntheticCall[][] {
  const needed = counts[question % counts.length] ?? 0;
  return Array.from({ length: rollouts }, (_, k) => {
    if (world === "by-rollout") {
      const makesFewCalls = k % 2 === 0;
      const count = makesFewCalls ? BY_ROLLOUT.few : BY_ROLLOUT.many;
      return new Array<SyntheticCall>(count).fill(taskOf(world, lengths, makesFewCalls));
    }
    const calls: SyntheticCall[] = [];
    while (calls.length < needed && (calls.length === 0 || random.uniform() >= STOP_PROBABILITY))
      calls.push(taskOf(world, lengths, needed <= FEW));
    return calls;
  });
}

/** A kind of call, with its share of the rollouts that make calls, and its share of all calls if no rollout stops early. */
export interface TaskShare extends SyntheticCall {
  readonly ofRollouts: number;
  readonly ofCalls: number;
}

/** The tasks of a world; the one of rollouts with many calls comes first. */
export function tasksOf(
  world: SyntheticWorld,
  lengths: ReportLengths,
  counts: readonly number[] = COUNTS,
): readonly TaskShare[] {
  const [many, few] = [taskOf(world, lengths, false), taskOf(world, lengths, true)];
  if (many.kind === few.kind && many.length === few.length) return [{ ...many, ofRollouts: 1, ofCalls: 1 }];
  const needed = world === "by-rollout" ? Object.values(BY_ROLLOUT) : counts.filter((n) => n > 0);
  const fewNeeded = needed.filter((n) => n <= FEW);
  const fewOfRollouts = fewNeeded.length / needed.length;
  const fewOfCalls = sum(fewNeeded) / sum(needed);
  return [
    { ...many, ofRollouts: 1 - fewOfRollouts, ofCalls: 1 - fewOfCalls },
    { ...few, ofRollouts: fewOfRollouts, ofCalls: fewOfCalls },
  ];
}

export type Logits = Float64Array;

export const newLogits = (random: Random, lengths: ReportLengths): Logits =>
  Float64Array.from({ length: (1 + KINDS) * longest(lengths) * VOCABULARY }, () => random.uniform() - 0.5);

const positionsOf = (logits: Logits): number => logits.length / ((1 + KINDS) * VOCABULARY);

const at = (kind: Kind | undefined, position: number, positions: number): number =>
  ((kind === undefined ? 0 : 1 + kind) * positions + position) * VOCABULARY;

/** [kind][position][token]: the policy's probabilities. */
export type TabularPolicy = readonly (readonly (readonly number[])[])[];

export function policyOf(logits: Logits): TabularPolicy {
  const positions = [...Array(positionsOf(logits)).keys()];
  return [...Array(KINDS).keys()].map((kind) => positions.map((position) => probabilities(logits, kind, position)));
}

function probabilities(logits: Logits, kind: Kind, position: number): number[] {
  const positions = positionsOf(logits);
  const [shared, own] = [at(undefined, position, positions), at(kind, position, positions)];
  const exponentials = Array.from({ length: VOCABULARY }, (_, v) =>
    Math.exp((logits[shared + v] ?? 0) + (logits[own + v] ?? 0)),
  );
  const total = sum(exponentials);
  return exponentials.map((value) => value / total);
}

export interface SampledReport {
  readonly kind: Kind;
  readonly tokens: readonly number[];
  readonly logProbs: readonly number[];
}

export function sampleReport(policy: TabularPolicy, { kind, length }: SyntheticCall, random: Random): SampledReport {
  const tokens = (policy[kind] ?? []).slice(0, length).map((p) => drawToken(p, random.uniform()));
  return {
    kind,
    tokens,
    logProbs: tokens.map((token, position) => Math.log(policy[kind]?.[position]?.[token] ?? 0)),
  };
}

/** The first token at which the cumulative probability exceeds `uniform`. */
function drawToken(p: readonly number[], uniform: number): number {
  let cumulative = 0;
  for (const [token, one] of p.entries()) {
    cumulative += one;
    if (uniform < cumulative) return token;
  }
  return p.length - 1;
}

/** The expert's score: the share of correct tokens. */
export const reportScore = ({ kind, tokens }: SampledReport): number =>
  tokens.filter((token) => token === kind).length / tokens.length;

/** The main agent is correct if the first token of every report is. With 20 calls, that is rare until the searcher is trained. */
export const isCorrect = (reports: readonly SampledReport[]): boolean =>
  reports.every(({ kind, tokens }) => tokens[0] === kind);

/** The expected score of a call's report. */
export const quality = (policy: TabularPolicy, { kind, length }: SyntheticCall): number =>
  sum((policy[kind] ?? []).slice(0, length).map((p) => p[kind] ?? 0)) / length;

export const zeroGradient = (policy: TabularPolicy): Float64Array =>
  new Float64Array((1 + KINDS) * (policy[0]?.length ?? 0) * VOCABULARY);

/** Adds the gradient of a loss whose derivative with respect to each token's log-prob is given. */
export function addGradient(
  gradient: Float64Array,
  policy: TabularPolicy,
  { kind, tokens }: SampledReport,
  byLogProb: readonly number[],
): void {
  const positions = positionsOf(gradient);
  for (const [position, token] of tokens.entries()) {
    const [shared, own] = [at(undefined, position, positions), at(kind, position, positions)];
    for (const [v, p] of (policy[kind]?.[position] ?? []).entries()) {
      const change = (byLogProb[position] ?? 0) * ((v === token ? 1 : 0) - p);
      gradient[shared + v] = (gradient[shared + v] ?? 0) + change;
      gradient[own + v] = (gradient[own + v] ?? 0) + change;
    }
  }
}
