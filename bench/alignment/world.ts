/**
 * @file A searcher small enough to be trained thousands of times: tables of logits instead of a language model. Everything else is the
 * program's own: scores, alignment, advantages, weights and loss are those of core/mgrpo. See docs/findings.md.
 *
 * A report has `TOKENS` tokens. A token's logits are those of its position, shared by both kinds of tasks, plus those of its position and
 * kind. The correct token differs between the kinds, so what is learned from one must be unlearned for the other, as in one language model.
 *
 *   alike        every task is of one kind; questions need 0 to 20 calls
 *   by-question  questions of up to three calls ask tasks of kind 1, those of more calls tasks of kind 0
 *   by-rollout   half of each question's rollouts make one call of kind 1, the others 20 of kind 0
 */
import type { Random } from "../../core/random.ts";

export const WORLDS = ["alike", "by-question", "by-rollout"] as const;
export type SyntheticWorld = (typeof WORLDS)[number];

/** Calls that questions need. */
const COUNTS = [0, 1, 2, 3, 5, 8, 13, 20];
/** Probability that a rollout stops before each further call. */
const STOPS = 0.03;

export const TOKENS = 8;
const SYMBOLS = 6;
const KINDS = 2;
export const PARAMETERS = (1 + KINDS) * TOKENS * SYMBOLS;

export type Kind = number;

/** The kinds of the calls of each rollout of a question. */
export function callsOf(world: SyntheticWorld, question: number, rollouts: number, random: Random): Kind[][] {
  const needed = COUNTS[question % COUNTS.length] ?? 0;
  return Array.from({ length: rollouts }, (_, k) => {
    if (world === "by-rollout") return k % 2 === 0 ? [1] : new Array<Kind>(20).fill(0);
    const kind = world === "by-question" && needed <= 3 ? 1 : 0;
    const calls: Kind[] = [];
    while (calls.length < needed && (calls.length === 0 || random.uniform() >= STOPS)) calls.push(kind);
    return calls;
  });
}

/** The weight of each kind in a mean over the rollouts that call. */
export function kindShares(world: SyntheticWorld): readonly [number, number] {
  if (world === "alike") return [1, 0];
  if (world === "by-rollout") return [0.5, 0.5];
  const calling = COUNTS.filter((n) => n > 0);
  const few = calling.filter((n) => n <= 3).length / calling.length;
  return [1 - few, few];
}

/** The weight of each kind in a mean over calls, if no rollout stops early. */
export function callShares(world: SyntheticWorld): readonly [number, number] {
  if (world === "alike") return [1, 0];
  const [few, all] = world === "by-rollout" ? [1, 21] : [6, 52];
  return [1 - few / all, few / all];
}

export type Logits = Float64Array;

export const newLogits = (random: Random): Logits =>
  Float64Array.from({ length: PARAMETERS }, () => random.uniform() - 0.5);

const at = (kind: Kind | undefined, position: number): number =>
  ((kind === undefined ? 0 : 1 + kind) * TOKENS + position) * SYMBOLS;

/** [kind][position][symbol]: the policy's probabilities. */
export type TabularPolicy = readonly (readonly (readonly number[])[])[];

export function policyOf(logits: Logits): TabularPolicy {
  const positions = [...Array(TOKENS).keys()];
  return [...Array(KINDS).keys()].map((kind) => positions.map((position) => probabilities(logits, kind, position)));
}

function probabilities(logits: Logits, kind: Kind, position: number): number[] {
  const [shared, own] = [at(undefined, position), at(kind, position)];
  const exponentials = Array.from({ length: SYMBOLS }, (_, v) =>
    Math.exp((logits[shared + v] ?? 0) + (logits[own + v] ?? 0)),
  );
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}

export interface SampledReport {
  readonly kind: Kind;
  readonly symbols: readonly number[];
  readonly logProbs: readonly number[];
}

export function sampleReport(policy: TabularPolicy, kind: Kind, random: Random): SampledReport {
  const symbols = (policy[kind] ?? []).map((p) => drawn(p, random.uniform()));
  return {
    kind,
    symbols,
    logProbs: symbols.map((symbol, position) => Math.log(policy[kind]?.[position]?.[symbol] ?? 0)),
  };
}

/** The symbol at which the probabilities, summed up, pass `uniform`. */
function drawn(p: readonly number[], uniform: number): number {
  let sum = 0;
  for (const [symbol, one] of p.entries()) {
    sum += one;
    if (uniform < sum) return symbol;
  }
  return p.length - 1;
}

/** The expert's score: the share of correct tokens. */
export const reportScore = ({ kind, symbols }: SampledReport): number =>
  symbols.filter((symbol) => symbol === kind).length / TOKENS;

/** The main agent is correct if every report begins correctly: rarely, with 20 calls. */
export const isCorrect = (reports: readonly SampledReport[]): boolean =>
  reports.every(({ kind, symbols }) => symbols[0] === kind);

/** The expected score of a kind's reports. */
export const quality = (policy: TabularPolicy, kind: Kind): number =>
  (policy[kind] ?? []).reduce((sum, p) => sum + (p[kind] ?? 0), 0) / TOKENS;

/** Adds the gradient of a loss whose derivative with respect to each token's log-prob is given. */
export function addGradient(
  gradient: Float64Array,
  policy: TabularPolicy,
  { kind, symbols }: SampledReport,
  byLogProb: readonly number[],
): void {
  for (const [position, symbol] of symbols.entries()) {
    const [shared, own] = [at(undefined, position), at(kind, position)];
    for (const [v, p] of (policy[kind]?.[position] ?? []).entries()) {
      const change = (byLogProb[position] ?? 0) * ((v === symbol ? 1 : 0) - p);
      gradient[shared + v] = (gradient[shared + v] ?? 0) + change;
      gradient[own + v] = (gradient[own + v] ?? 0) + change;
    }
  }
}
