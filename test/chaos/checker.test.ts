/** @file The checker accepts a trial that keeps every law. If a trial breaks a law, that law reports it. */
import { expect, test } from "vitest";
import { check, laws } from "./checker.ts";
import type { Entry, RunResult, Strike, Trial } from "./history.ts";
import { LIMITS } from "./limits.ts";

let milliseconds = 0;

/** A request: unless `more` says otherwise, a write that took effect. */
function wrote(fact: string, more: Partial<Entry> = {}): Entry {
  milliseconds += 10;
  return {
    sentAt: milliseconds,
    answeredAt: milliseconds + 5,
    process: "functions",
    channel: fact.startsWith("commit") ? "s3" : "dynamo",
    method: "POST",
    path: "/",
    fault: undefined,
    status: 200,
    facts: [fact],
    ...more,
  };
}

const asked = (more: Partial<Entry> = {}): Entry =>
  wrote("", { channel: "world", facts: [], verdictMicroUsd: 2000, ...more });

const CLAIM = "VERDICT#a#subject JUDGE#judge";
const HELD_MS = 50_000;

/** A claim on the verdict, at a time of the store. */
const claimed = (madeAt: number): Entry => {
  const claim = { madeAt, heldUntil: madeAt + HELD_MS };
  return wrote("", { facts: [], lease: { name: CLAIM, act: "grant", seconds: HELD_MS / 1000, claim } });
};

/** Once the first claim has expired, the verdict is claimed again and the judge is asked again. */
const askedAgain = (): Entry[] => [claimed(HELD_MS + 1), asked()];

/** A request to the judge that is never answered. */
const hung = (): Entry => wrote("", { channel: "world", facts: [], fault: "hang" });

/** A request of the tool, which costs 1,000 micro-dollars. */
const lookedUp = (process = "searcher-a"): Entry =>
  wrote("", { process, channel: "world", path: "/page?word=amber", facts: [] });

const throttled = (): Entry => wrote("", { facts: [], fault: "throttle", status: 400 });

/** A write whose target died during it. */
const unanswered = (entry: Entry): Entry => ({ ...entry, status: 0, facts: [], possible: entry.facts });

const OUTCOME = "commit runs/a/outcomes/000000/0/0.json";
const SCORE = "score GROUP#a#000000#0 GROUP rollouts.0";
const READY = "step RUN#a STEP#000000 ready";
const BASE = "commit runs/a/manifests/main/000000.json";
const [FIRST, SECOND] = ["commit runs/a/manifests/main/000001.json", "commit runs/a/manifests/main/000002.json"];
const [ADVANCE, SECOND_ADVANCE] = ["advance RUN#a RUN 1", "advance RUN#a RUN 2"];
const VERDICT = "commit runs/a/verdicts/subject-judge.json";

function rollout(usd: number) {
  return { reward: 1, judged: { inputTokens: 100, outputTokens: 10, usd } };
}

const judgedFor = (usd: number) => ({
  ...(run.records as object),
  steps: [{ groups: [{ rollouts: { 0: rollout(usd) } }] }],
});

const run: RunResult = {
  run: "a",
  status: "finished",
  records: { steps: [{ groups: [{ rollouts: { 0: rollout(0.002) } }] }], weights: { main: ["one", "two"] } },
  judgesMicroUsd: 2000,
  toolsMicroUsd: 1000,
  agentsMicroUsd: 0,
  foreignTrajectories: [],
};

function trialOf(history: readonly Entry[], more: Partial<Trial> = {}): Trial {
  return {
    ...{ endedInTime: true, seconds: 20, runs: [run], history, log: [], strikes: [], limits: LIMITS },
    ...{ starts: {}, ends: [], ...more },
  };
}

/** Two steps; the history has only one rollout, of the first step. */
const story = () => [
  wrote(BASE),
  wrote(OUTCOME),
  lookedUp(),
  claimed(0),
  asked(),
  wrote(VERDICT),
  wrote(SCORE),
  wrote(READY),
  wrote(FIRST),
  wrote(ADVANCE),
  wrote("step RUN#a STEP#000001 ready"),
  wrote(SECOND),
  wrote(SECOND_ADVANCE),
];
const reference = trialOf(story());
const without = (fact: string) => story().filter(({ facts }) => !facts.includes(fact));
const withRun = (changes: Partial<RunResult>) => trialOf(story(), { runs: [{ ...run, ...changes }] });
/** The fact comes after all others. */
const last = (fact: string) => [...without(fact), wrote(fact)];
/** The request that records the fact is sent when the trial begins; the time of its answer does not change. */
const sentAtOnce = (fact: string) =>
  story().map((entry) => (entry.facts.includes(fact) ? { ...entry, sentAt: 0 } : entry));
const death = (process: string): Strike => ({ process, signal: "kill", seconds: 0, at: 0 });
const swapped = (one: string, other: string) =>
  story().map((entry) =>
    entry.facts.includes(one)
      ? { ...entry, facts: [other] }
      : entry.facts.includes(other)
        ? { ...entry, facts: [one] }
        : entry,
  );

test("the undisturbed trial keeps every law", () => {
  expect(check({ trial: reference, reference })).toEqual([]);
});

const TOOLS_BILL = "the tools' bill is the price of their requests";

const broken: [string, keyof typeof laws, Trial][] = [
  ["a trial that does not end", "the trial ends and every run is finished", trialOf(story(), { endedInTime: false })],
  ["a halted run", "the trial ends and every run is finished", withRun({ status: "halted" })],
  [
    "different weights",
    "scores, groups, weights and evaluations are those of the undisturbed run",
    withRun({ records: { ...(run.records as object), weights: { main: ["one", "three"] } } }),
  ],
  [
    "a question skipped",
    "scores, groups, weights and evaluations are those of the undisturbed run",
    withRun({ records: { ...(run.records as object), steps: [{ groups: [] }] } }),
  ],
  ["a score counted twice", "each fact is recorded once", trialOf([...story(), wrote(SCORE)])],
  ["a version published twice", "each fact is recorded once", trialOf([...story(), wrote(SECOND)])],
  [
    "an outcome overwritten",
    "no object is overwritten",
    trialOf([...story(), wrote(OUTCOME.replace("commit", "overwrite"))]),
  ],
  ["versions out of order", "versions are linear", trialOf(swapped(FIRST, SECOND))],
  ["the first version skipped", "versions are linear", trialOf(without(BASE))],
  ["a version skipped", "versions are linear", trialOf([...story(), wrote(FIRST.replace("000001", "000004"))])],
  ["a step back", "steps advance one at a time", trialOf(swapped(ADVANCE, SECOND_ADVANCE))],
  ["the first step skipped", "steps advance one at a time", trialOf(without(ADVANCE))],
  ["a version sent before the one before it is stored", "versions are linear", trialOf(sentAtOnce(SECOND))],
  [
    "a worker that nobody declares dead",
    "no wait lasts beyond its deadline",
    trialOf([...story(), wrote("", { facts: [], lease: { name: "RUN#a WORKER#main-1", act: "grant" } })], {
      seconds: 1000,
      runs: [{ ...run, status: "running" }],
    }),
  ],
  ["a score without its outcome", "a score follows its outcome", trialOf(without(OUTCOME))],
  ["a score before its outcome", "a score follows its outcome", trialOf(last(OUTCOME))],
  ["a version whose step is never ready", "a version follows its step", trialOf(without(READY))],
  ["a version before its step is ready", "a version follows its step", trialOf(last(READY))],
  [
    "tokens of another version",
    "every trained token was sampled by the version that its record names",
    withRun({ foreignTrajectories: ["a 0/0/0 main: other weights"] }),
  ],
  ["a judge paid twice", "the judge is asked again only after a disturbance", trialOf([...story(), ...askedAgain()])],
  ["a judge asked without a claim", "the judge is asked only under a claim", trialOf([...story(), asked()])],
  [
    "a judge asked without a claim alongside deaths and faults of the store",
    "the judge is asked only under a claim",
    trialOf([...story(), throttled(), asked()], { strikes: [death("functions"), death("eval-a")] }),
  ],
  [
    "two callers that ask at once",
    "a verdict is claimed by one caller at a time",
    trialOf([...story(), claimed(HELD_MS - 4000), asked()], { strikes: [death("functions")] }),
  ],
  [
    "a judge paid twice alongside a fault of a process that does not ask it",
    "the judge is asked again only after a disturbance",
    trialOf([...story(), asked(), { ...throttled(), process: "main-a" }]),
  ],
  [
    "a judge paid 17 extra times alongside a death",
    "the judge is asked again only after a disturbance",
    trialOf([...story(), ...Array.from({ length: 17 }, () => asked())], { strikes: [death("functions")] }),
  ],
  ["an answer that is not billed", "every answer of the judge is billed", withRun({ judgesMicroUsd: 1000 })],
  [
    "an answer to a late request that is not billed",
    "every answer of the judge is billed",
    trialOf([...story(), asked({ fault: "delay" })]),
  ],
  [
    "a late answer that is not billed",
    "every answer of the judge is billed",
    trialOf([...story(), asked({ fault: "late" })]),
  ],
  [
    "a verdict recorded as cheaper than it was",
    "scores, groups, weights and evaluations are those of the undisturbed run",
    withRun({ records: judgedFor(0.001) }),
  ],
  [
    "an answer billed twice",
    "the judge's bill exceeds the cost of its answers only by requests whose cost is unknown",
    withRun({ judgesMicroUsd: 4000 }),
  ],
  [
    "a hung request billed beyond its maximum",
    "the judge's bill exceeds the cost of its answers only by requests whose cost is unknown",
    trialOf([...story(), hung()], { runs: [{ ...run, judgesMicroUsd: 14_001 }] }),
  ],
  [
    "an answer billed twice alongside ten throttled requests to the store",
    "the judge's bill exceeds the cost of its answers only by requests whose cost is unknown",
    trialOf([...story(), ...Array.from({ length: 10 }, throttled)], { runs: [{ ...run, judgesMicroUsd: 4000 }] }),
  ],
  ["a tool's request that is not billed", TOOLS_BILL, trialOf([...story(), lookedUp("eval-a")])],
  ["a tool's request that is billed twice", TOOLS_BILL, withRun({ toolsMicroUsd: 2000 })],
];

test.each(broken)("the checker reports %s (law: %s)", (_what, law, trial) => {
  const found = check({ trial, reference });
  expect(found.map((line) => line.split(": ", 1)[0])).toContain(law);
});

test("each law is broken by at least one of these trials", () => {
  expect(new Set(broken.map(([, law]) => law))).toEqual(new Set(Object.keys(laws)));
});

test("a second answer of the judge is excused by a fault, by a death or by a verdict that missed its deadline", () => {
  const twice = [...story(), asked({ fault: "lose" })];
  const late = "functions: no verdict within 20 s";
  for (const more of [{ history: twice }, { strikes: [death("functions")] }, { log: [late] }]) {
    const trial = trialOf([...story(), ...askedAgain()], { runs: [{ ...run, judgesMicroUsd: 4000 }], ...more });
    expect(check({ trial, reference })).toEqual([]);
  }
});

test("a second answer of the judge is not excused by an event that arrives twice", () => {
  const event = wrote("", { channel: "events", process: "functions", facts: [], fault: "duplicate" });
  const trial = trialOf([...story(), event, ...askedAgain()], { runs: [{ ...run, judgesMicroUsd: 4000 }] });
  expect(check({ trial, reference })).toEqual([expect.stringMatching(/^the judge is asked again only/)]);
});

const ANSWER_LOSERS = ["functions", "cloud", "eval-a"];

test.each(ANSWER_LOSERS)("the death of %s, but not a trainer's, excuses a request billed at its maximum", (process) => {
  const billed = { runs: [{ ...run, judgesMicroUsd: 14_000 }] };
  expect(check({ trial: trialOf(story(), { ...billed, strikes: [death(process)] }), reference })).toEqual([]);
  // A worker that only runs rollouts and trains never asks the judge.
  const other = trialOf(story(), { ...billed, strikes: [death("main-a")] });
  expect(check({ trial: other, reference })).toEqual([
    expect.stringMatching(/^the judge's bill exceeds the cost of its answers/),
  ]);
});

test("the failure of an evaluation worker, but not a trainer's, excuses a request billed at its maximum", () => {
  const billed = { runs: [{ ...run, judgesMicroUsd: 14_000 }] };
  const failed = (process: string) => [`${process}: {"level":"error","what":"worker failed","code":"disk-full"}`];
  expect(check({ trial: trialOf(story(), { ...billed, log: failed("eval-a") }), reference })).toEqual([]);
  const [violation] = check({ trial: trialOf(story(), { ...billed, log: failed("main-a") }), reference });
  expect(violation).toMatch(/^the judge's bill exceeds the cost of its answers/);
});

test("a write whose target died during it may have taken effect, but never counts as a repeat", () => {
  for (const fact of [OUTCOME, READY, FIRST, ADVANCE]) {
    const history = story().map((entry) => (entry.facts.includes(fact) ? unanswered(entry) : entry));
    expect(check({ trial: trialOf(history), reference })).toEqual([]);
  }
  const [base = expect.fail(), first = expect.fail(), ...others] = story();
  const again = trialOf([base, unanswered(first), first, first, ...others]);
  expect(check({ trial: again, reference })).toEqual([`each fact is recorded once: 2 times: ${OUTCOME}`]);
});

test("a full disk of the table, but not of the objects, excuses a request billed at its maximum", () => {
  const billed = (channel: Entry["channel"]) =>
    trialOf([...story(), wrote("", { channel, facts: [], fault: "full", status: 507 })], {
      runs: [{ ...run, judgesMicroUsd: 14_000 }],
    });
  expect(check({ trial: billed("dynamo"), reference })).toEqual([]);
  expect(check({ trial: billed("s3"), reference })).toEqual([
    expect.stringMatching(/^the judge's bill exceeds the cost of its answers/),
  ]);
});

test("a hung request to the judge may be billed and recorded at its maximum", () => {
  const trial = trialOf([...story(), hung()], {
    runs: [{ ...run, records: judgedFor(0.014), judgesMicroUsd: 14_000 }],
  });
  expect(check({ trial, reference })).toEqual([]);
});
