/**
 * @file Checks the history and the records of a trial against the laws of the protocol, as Jepsen does. A law returns its violations, one
 * line each.
 */
import { apiLaws } from "./api-bill.ts";
import { toolBillErrors } from "./bills.ts";
import { overlappingClaims, unclaimedAnswers } from "./claims.ts";
import type { Entry, Trial } from "./history.ts";
import { overdueWaits } from "./waits.ts";

export interface Evidence {
  readonly trial: Trial;
  /** The undisturbed trial. */
  readonly reference: Trial;
}

const IS_VERDICT = /^commit runs\/[^/]+\/verdicts\//;

type Law = (evidence: Evidence) => string[];

/** How many answers the judge gave. */
export const verdictsOf = ({ history }: Trial): number =>
  history.filter(({ verdictMicroUsd }) => verdictMicroUsd !== undefined).length;

/** Requests that recorded at least one fact, in the order of their answers. */
const effects = ({ history }: Trial): Entry[] =>
  history.filter(({ facts }) => facts.length > 0).toSorted((a, b) => a.answeredAt - b.answeredAt);

export const laws: Readonly<Record<string, Law>> = {
  "the trial ends and every run is finished": ({ trial }) => [
    ...(trial.endedInTime
      ? []
      : [`not ended after ${trial.seconds.toFixed(0)} s; starts: ${JSON.stringify(trial.starts)}`]),
    ...trial.runs.filter(({ status }) => status !== "finished").map(({ run, status }) => `run ${run} is ${status}`),
  ],

  "scores, groups, weights and evaluations are those of the undisturbed run": ({ trial, reference }) =>
    trial.runs.flatMap(({ run, records }) => {
      const expected = reference.runs.find((one) => one.run === run)?.records;
      const isPriced = trial.history.some(({ channel, process }) => channel === "api" && process.endsWith(`-${run}`));
      const comparable = isPriced ? withoutCounts : (value: unknown) => value;
      const difference = firstDifference(comparable(expected), comparable(records), `run ${run}`);
      return difference === undefined ? [] : [difference];
    }),

  "each fact is recorded once": ({ trial }) => {
    const counts = new Map<string, number>();
    for (const { facts } of effects(trial)) for (const fact of facts) counts.set(fact, (counts.get(fact) ?? 0) + 1);
    return [...counts].filter(([, n]) => n > 1).map(([fact, n]) => `${n} times: ${fact}`);
  },

  "no object is overwritten": ({ trial }) =>
    effects(trial)
      .flatMap(({ facts }) => facts)
      .filter((fact) => fact.startsWith("overwrite ")),

  "versions are linear": ({ trial }) =>
    inOrder(trial, /^commit (runs\/[^/]+\/manifests\/[^/]+)\/(\d+)\.json$/, "manifest", 0),

  "steps advance one at a time": ({ trial }) => inOrder(trial, /^advance (\S+) RUN (\d+)$/, "RUN.step", 1),

  "no wait lasts beyond its deadline": ({ trial }) => overdueWaits(trial),

  "a score follows its outcome": ({ trial }) =>
    follows(
      trial,
      /^score GROUP#([^#]+)#(\d+)#(\d+) GROUP rollouts\.(\d+)$/,
      ([, run, step, group, rollout]) => `commit runs/${run}/outcomes/${step}/${group}/${rollout}.json`,
    ),

  "a version follows its step": ({ trial }) =>
    follows(trial, /^commit runs\/([^/]+)\/manifests\/[^/]+\/(\d+)\.json$/, ([, run, version]) => {
      const step = Number(version) - 1;
      return step < 0 ? undefined : `step RUN#${run} STEP#${String(step).padStart(6, "0")} ready`;
    }),

  "every trained token was sampled by the version that its record names": ({ trial }) =>
    trial.runs.flatMap(({ foreignTrajectories }) => foreignTrajectories),

  "the judge is asked again only after a disturbance": ({ trial }) => {
    const asked = verdictsOf(trial);
    const stored = effects(trial).filter(({ facts }) => facts.some((fact) => IS_VERDICT.test(fact))).length;
    const excused = disturbances(trial);
    return asked - stored > excused ? [`${asked} answers, ${stored} stored, ${excused} disturbances`] : [];
  },

  "the judge is asked only under a claim": ({ trial }) => unclaimedAnswers(trial),

  "a verdict is claimed by one caller at a time": ({ trial }) => overlappingClaims(trial),

  "every answer of the judge is billed": ({ trial }) => {
    const { paid, billed } = judgesBill(trial);
    return billed < paid ? [`paid ${paid} micro-dollars, billed ${billed}`] : [];
  },

  "the judge's bill exceeds the cost of its answers only by requests whose cost is unknown": ({ trial }) => {
    const { paid, billed } = judgesBill(trial);
    const excused = unknownCosts(trial);
    return billed > paid + excused * MAX_REQUEST_MICRO_USD
      ? [`paid ${paid} micro-dollars, billed ${billed}, ${excused} requests of unknown cost`]
      : [];
  },

  "the tools' bill is the price of their requests": ({ trial }) => toolBillErrors(trial),
};

/** The violations of each law; empty if the trial keeps every law. */
export function check(evidence: Evidence): string[] {
  const found = [
    ...Object.entries(laws).map(([name, law]) => ({ name, violations: law(evidence) })),
    ...Object.entries(apiLaws).map(([name, law]) => ({ name, violations: law(evidence.trial) })),
  ];
  return found.flatMap(({ name, violations }) => violations.map((violation) => `${name}: ${violation}`));
}

/**
 * Facts of a kind are recorded in ascending order from `first` on, each sent after the previous one was answered. A gap may have been filled
 * by a write whose target died during it.
 */
function inOrder(trial: Trial, kind: RegExp, name: string, first: number): string[] {
  const last = new Map<string, { n: number; answeredAt: number }>();
  const possible = new Set(trial.history.flatMap((entry) => entry.possible ?? []));
  return effects(trial).flatMap(({ facts, sentAt, answeredAt }) =>
    facts.flatMap((fact) => {
      const [, subject, text] = kind.exec(fact) ?? [];
      if (subject === undefined) return [];
      const before = last.get(subject) ?? { n: first - 1, answeredAt: 0 };
      const n = Number(text);
      last.set(subject, { n, answeredAt });
      const isBetween = (other: string) => {
        const [, its, text] = kind.exec(other) ?? [];
        return its === subject && Number(text) > before.n && Number(text) < n;
      };
      const unseen = [...possible].filter(isBetween).length;
      if (n > before.n && n - before.n - 1 <= unseen && sentAt >= before.answeredAt) return [];
      return [`${name} ${subject}: ${n} after ${before.n}`];
    }),
  );
}

/**
 * Every fact of a kind has a cause whose request was sent before the fact's request was answered. This is all that can be checked: a request
 * takes effect at an unknown time between its sending and its answer.
 */
function follows(trial: Trial, kind: RegExp, causeOf: (match: readonly string[]) => string | undefined): string[] {
  const recorded = new Map<string, number>();
  for (const { facts, possible = [], sentAt } of trial.history) {
    for (const fact of [...facts, ...possible])
      recorded.set(fact, Math.min(sentAt, recorded.get(fact) ?? Number.POSITIVE_INFINITY));
  }
  return effects(trial).flatMap(({ facts, answeredAt }) =>
    facts.flatMap((fact) => {
      const match = kind.exec(fact);
      const cause = match && causeOf(match);
      if (!cause || (recorded.get(cause) ?? Number.POSITIVE_INFINITY) <= answeredAt) return [];
      return [`${fact}: no '${cause}' before it`];
    }),
  );
}

/** In micro-dollars: the cost of the judge's answers that arrived, late or not, and what the runs were charged. */
function judgesBill({ history, runs }: Trial): { readonly paid: number; readonly billed: number } {
  const delivered = history.filter(({ fault }) => fault === undefined || fault === "delay" || fault === "late");
  return {
    paid: delivered.reduce((sum, { verdictMicroUsd = 0 }) => sum + verdictMicroUsd, 0),
    billed: runs.reduce((sum, { judgesMicroUsd }) => sum + judgesMicroUsd, 0),
  };
}

/** A request whose cost stays unknown, for example because it hung, is billed at its maximum. No request of a trial has a higher maximum than this. */
const MAX_REQUEST_MICRO_USD = 12_000;

/** The most requests to the judge that can be in flight when a process dies. */
export const MAX_CONCURRENT_REQUESTS = 16;

/** Processes whose death may lose an answer of the judge: functions and evaluation workers ask it, and the cloud stores its verdicts. */
export const ANSWER_LOSING_PROCESSES = /^(functions|cloud|eval-.*)$/;

/**
 * How many answers of the judge may have been lost: to faults of the functions' requests, to deaths, to the deadline of a verdict. An event
 * that is lost, late or duplicated excuses nothing.
 */
const disturbances = (trial: Trial): number =>
  countFaults(trial, ({ channel }) => channel !== "events") + countCutOff(trial);

/**
 * How many requests to the judge may be billed at their maximum. All of them pass the functions' proxy to the world. If the table's disk is
 * full when the actual cost is to be written, the maximum stays charged.
 */
const unknownCosts = (trial: Trial): number =>
  countFaults(trial, ({ channel, fault }) => channel === "world" || (channel === "dynamo" && fault === "full")) +
  countCutOff(trial);

const countFaults = ({ history }: Trial, counts: (entry: Entry) => boolean): number =>
  history.filter((entry) => entry.process === "functions" && entry.fault !== undefined && counts(entry)).length;

/** Requests to the judge that a kill, a stop or a failure of a process, or the deadline of a verdict, may have cut off. */
function countCutOff({ strikes, log }: Trial): number {
  const interruptions =
    strikes.filter(({ process }) => ANSWER_LOSING_PROCESSES.test(process)).length + log.filter(isFailure).length;
  return interruptions * MAX_CONCURRENT_REQUESTS + log.filter((line) => line.includes("no verdict within")).length;
}

/** A worker exits on an error, such as a full disk, and what it had in flight ends with it. */
function isFailure(line: string): boolean {
  const [process = ""] = line.split(": ", 1);
  return ANSWER_LOSING_PROCESSES.test(process) && line.includes('"what":"worker failed"');
}

/** The n-th answer of a priced searcher's API has n output tokens, and a rollout's digest covers its token counts. */
const withoutCounts = (records: unknown): unknown =>
  JSON.parse(
    JSON.stringify(records ?? null, (name, value: unknown) =>
      name === "tokens" || name === "digest" ? undefined : value,
    ),
  );

/** The cost of a verdict grows with the requests that hung before it; the bill has a law of its own. */
const IS_COST = /\.judged\.usd$/;

/** Where two JSON values first differ; undefined if they are equal. A cost may be larger than expected. */
function firstDifference(expected: unknown, found: unknown, path: string): string | undefined {
  if (Object.is(expected, found)) return undefined;
  if (IS_COST.test(path) && Number(found) > Number(expected)) return undefined;
  if (!isObject(expected) || !isObject(found)) return `${path}: ${brief(found)} instead of ${brief(expected)}`;
  for (const key of new Set([...Object.keys(expected), ...Object.keys(found)])) {
    const difference = firstDifference(expected[key], found[key], `${path}.${key}`);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
const brief = (value: unknown): string => (JSON.stringify(value) ?? "nothing").slice(0, 200);
