/**
 * @file The scores and curves of a comparison whose runs differ: in the number or order of their suites, in lost questions, in how often they
 * were evaluated, or in whether they have finished.
 */
import { expect, test } from "vitest";
import { heldOutBands, rewardBands } from "../../cli/compare/curves.ts";
import { drawMarkdown } from "../../cli/compare/markdown.ts";
import {
  comparedSuites,
  EMPTY_TALLY,
  type EvaluatedRun,
  measureArm,
  refuseOtherQuestions,
  refuseOtherSuites,
} from "../../cli/compare/measure.ts";
import { type ArmResult, type Comparison, evaluated, summarize } from "../../cli/compare/summary.ts";
import { about as aboutRuns, finished, frozen, mgrpo } from "./compared-runs.ts";

/** An arm with one run, whose suites come in this order, with their shares after training in percent. */
function armOf(label: string, suites: readonly (readonly [suite: string, after: number])[]): ArmResult {
  const share = (percent: number) => ({ n: 100, correct: percent, interval: { low: 0, high: 1 } });
  const estimate = (percent: number) => ({ value: percent / 100, low: 0, high: 1 });
  const heldOut = suites.map(([suite, after]) => ({
    ...{ suite, temperature: 1, before: estimate(10), after: estimate(after) },
    ...{ gain: estimate(after - 10), againstFirst: null },
  }));
  const evaluations = suites.map(([suite, after]) => ({
    suite,
    temperature: 1,
    before: share(10),
    after: share(after),
  }));
  const run = { run: `run-${label}`, seed: 1, steps: 2, sampledTokens: 9, short: false, seconds: 1, evaluations };
  return { label, arm: "mgrpo", varied: null, runs: [run], heldOut, caseStudies: [], kinds: [] };
}

const about: Omit<Comparison, "arms"> = {
  ...{ name: "c", recipe: "tiny", command: "cmd", start: "", questions: "", commits: ["a"], foreign: [] },
  ...{ machines: ["m"], hours: 1, seeds: [1], missing: [] },
};

test("scores are under their own suite's heading, in whichever order an arm has its suites; a missing score is a dash", () => {
  const arms = [
    armOf("one", [
      ["a", 20],
      ["b", 30],
    ]),
    armOf("two", [
      ["b", 50],
      ["a", 40],
    ]),
    armOf("three", [["b", 60]]),
  ];
  const page = drawMarkdown({ ...about, arms }, []);
  const after = (suite: string) => {
    const [section = ""] = page.split(`### ${suite} `)[1]?.split("\n\n#") ?? [];
    return [...section.matchAll(/^\| (one|two|three) \| [^|]* \| (\S+)/gm)].map(([, , value]) => value);
  };
  expect([after("a"), after("b")]).toEqual([
    ["20.0", "40.0", "-"],
    ["30.0", "50.0", "60.0"],
  ]);
  const rows = [...page.matchAll(/^\| run-\w+ (.*)$/gm)].map(([, cells = ""]) => cells.match(/(?<=\| )[\d.-]+/g));
  expect(rows).toEqual([
    ["10.0", "20.0", "10.0", "30.0"],
    ["10.0", "40.0", "10.0", "50.0"],
    ["-", "-", "10.0", "60.0"],
  ]);
});

test("a question that one of two teams lost is left out of their difference: in the gain, between arms, and by kind", () => {
  const [one, other] = [finished("one", 1, 4), finished("other", 1, 4)].map(evaluated);
  // Both answer four of eight correctly; the second arm's trained team loses two of its wrong answers.
  const heldOut = other?.heldOut.map(({ team, questions, ...rest }) => ({
    ...{ ...rest, team },
    questions: questions.map((score, i) => (team > 0 && i > 5 ? { ...score, n: 0, correct: 0 } : score)),
  }));
  const runs = [{ ...(other ?? expect.fail()), heldOut: heldOut ?? [] }];
  const arm = { label: "other", runs, first: [one ?? expect.fail()] };
  const suite = { suite: "sampled", temperature: 1 };
  const all = measureArm(arm, suite, "held-out", (question) => question);
  expect(all.after?.value).toBeCloseTo(4 / 6, 9);
  expect(all.againstFirst?.value).toBe(0);
  expect(all.gain?.value).toBeCloseTo(4 / 6 - 1 / 6, 9);
  const even = measureArm(arm, suite, "even", (question) => (question.kind === "even" ? question : EMPTY_TALLY));
  expect(even.againstFirst?.value).toBe(0);
});

test("kinds of questions are compared on the first arm's suite; an arm with kinds of another suite has a dash", () => {
  const armWith = (label: string, suite: string, percent: number): ArmResult => {
    const after = { value: percent / 100, low: 0, high: 1 };
    const kind = { kind: "easy", suite, temperature: 1, before: null, after, gain: null, againstFirst: null };
    return { ...armOf(label, [[suite, percent]]), kinds: [kind] };
  };
  const page = drawMarkdown({ ...about, arms: [armWith("one", "a", 20), armWith("two", "b", 50)] }, []);
  expect(page).toContain("\n| one | 20.0 [0.0, 100.0] |\n| two | - |\n");
});

test("all curves are of the suite on which the first arm was evaluated most often, even if a short run was evaluated on another as often", () => {
  const scores = (suite: string, team: number, correct: number) => ({
    ...{ team, suite, temperature: 1, closedBook: false },
    questions: ["q1", "q2", "q3", "q4"].map((question, i) => {
      return { question, kind: "", n: 1, correct: i < correct ? 1 : 0, studies: {} };
    }),
  });
  const [one, two] = [finished("long", 1, 0), finished("short", 1, 0)];
  const before = [scores("test", 0, 0), scores("development", 0, 0)];
  const during = [scores("development", 1, 1), scores("test", 2, 4), scores("development", 2, 2)];
  const long = { ...one, report: { ...one.report, steps: 2 }, heldOut: [...before, ...during] };
  const short = { ...two, heldOut: [...before, scores("test", 1, 4), scores("development", 1, 3)] };
  const bands = heldOutBands([
    { entry: mgrpo, runs: [long], budgets: new Map() },
    { entry: frozen, runs: [short], budgets: new Map() },
  ]);
  expect(bands.map(({ points }) => points.map(({ y }) => y))).toEqual([
    [0, 0.25, 0.5],
    [0, 0.75],
  ]);
});

test("the last point of a curve is the mean over each seed's last team, whichever step that is", () => {
  const scores = (team: number, correct: number) => ({
    ...{ team, suite: "test", temperature: 1, closedBook: false },
    questions: ["q1", "q2"].map((question, i) => {
      return { question, kind: "", n: 1, correct: i < correct ? 1 : 0, studies: {} };
    }),
  });
  const of = (seed: number, ...heldOut: ReturnType<typeof scores>[]) => {
    const run = finished(`run-${seed}`, seed, 0);
    return { ...run, report: { ...run.report, steps: heldOut.length - 1 }, heldOut };
  };
  // The first seed has an evaluation in between; the second has none.
  const runs = [of(1, scores(0, 0), scores(1, 0), scores(2, 2)), of(2, scores(0, 0), scores(1, 1))];
  const [band] = heldOutBands([{ entry: mgrpo, runs, budgets: new Map() }]);
  // (2 + 1) of 4.
  expect(band?.points.map(({ y }) => y)).toEqual([0, 0.75]);
});

test("the band of a reward reaches from the smallest to the largest of the seeds", () => {
  const runs = [0.2, 0.6].map((reward, i) => {
    const run = finished(`run-${i}`, i + 1, 0);
    const perStep = run.report.perStep.map((step) => ({ ...step, reward: { ...step.reward, main: reward } }));
    return { ...run, report: { ...run.report, perStep } };
  });
  const [band] = rewardBands([{ entry: mgrpo, runs, budgets: new Map() }], "main");
  expect(band?.points).toEqual([{ x: 1, y: expect.closeTo(0.4, 9), low: 0.2, high: 0.6 }]);
});

test("a run is short if it sampled fewer tokens than its budget, not if it sampled just as many", () => {
  const shortOf = (budget: number) => {
    const runs = [finished("run", 1, 0, 30)];
    return summarize(aboutRuns, [{ entry: mgrpo, runs, budgets: new Map([["run", budget]]) }]).arms[0]?.runs[0]?.short;
  };
  expect([29, 30, 31].map(shortOf)).toEqual([false, false, true]);
});

test("the suites compared are those evaluated with tools before and after training, greedy ones last", () => {
  const scores = (suite: string, team: number, temperature: number, closedBook = false) => ({
    ...{ suite, team, temperature, closedBook },
    questions: [{ question: "q", kind: "", n: 1, correct: 1, studies: {} }],
  });
  const heldOut = [0, 2].flatMap((team) => [
    scores("greedy", team, 0),
    scores("closed", team, 1, true),
    scores("test", team, 1),
    ...(team > 0 ? [scores("only after", team, 1)] : []),
  ]);
  expect(comparedSuites([{ run: "a", seed: 1, steps: 2, heldOut }])).toEqual([
    { suite: "test", temperature: 1 },
    { suite: "greedy", temperature: 0 },
  ]);
  // In a run that has trained no step, the untrained team does not count as the last one too.
  const untrained = { run: "b", seed: 1, steps: 0, heldOut };
  const measured = measureArm(
    { label: "b", runs: [untrained] },
    { suite: "test", temperature: 1 },
    "held-out",
    (one) => one,
  );
  expect(measured).toMatchObject({ before: { value: 1 }, after: null, gain: null });
});

test("the scores of other arms are shown if the baseline has no finished run", () => {
  const baseline = { ...armOf("one", []), runs: [] };
  const page = drawMarkdown({ ...about, arms: [baseline, armOf("two", [["a", 40]])] }, []);
  expect(page).toContain("| arm | before | after | gain | compared with one |");
  expect(page).toContain("\n| one | - | - | - | - |\n");
  expect(page).toMatch(/^\| two \| 10\.0 \[\S+ \S+\] \| 40\.0 /m);
  expect(page).toMatch(/^\| run-two \| 10\.0 /m);
});

test("runs are refused only if they were asked different questions of the same suite; a run in training may lack suites", () => {
  const run = (name: string, suites: Readonly<Record<string, readonly string[]>>): EvaluatedRun => ({
    ...{ run: name, seed: 1, steps: 2 },
    heldOut: Object.entries(suites).map(([suite, ids]) => ({
      ...{ suite, team: 0, temperature: 1, closedBook: false },
      questions: ids.map((question) => ({ question, kind: "", n: 1, correct: 0, studies: {} })),
    })),
  });
  const running = run("a", { sampled: ["q1"] });
  const finished = run("b", { sampled: ["q1"], test: ["q2"] });
  for (const runs of [[running, finished], [finished, running], []])
    expect(() => refuseOtherQuestions(runs)).not.toThrow();
  expect(() => refuseOtherQuestions([running, finished, run("c", { test: ["q3"] })])).toThrow(
    /^suite test: runs 'b' and 'c' were asked different questions/,
  );
});

test("before training, a suite whose questions differ between runs is refused; one that a run lacks is not", () => {
  const set = (suites: Readonly<Record<string, readonly string[]>>) => ({
    suites: Object.fromEntries(
      Object.entries(suites).map(([name, ids]) => [
        name,
        { questions: ids.map((id) => ({ id, kind: "", level: 1, prompt: "p", answer: "a", facts: {} })) },
      ]),
    ),
  });
  const asked = new Map<string, string>();
  for (const suites of [{ gaia: ["q1", "q2"] }, { gaia: ["q1", "q2"], own: ["q3"] }, {}])
    expect(() => refuseOtherSuites(set(suites), asked)).not.toThrow();
  expect(() => refuseOtherSuites(set({ gaia: ["q1"] }), asked)).toThrow(/^suite 'gaia': its questions depend on/);
});

test("a run that is still training is left out of every estimate that needs scores after training", () => {
  const scores = (team: number, correct: number) => ({
    ...{ team, suite: "test", temperature: 1, closedBook: false },
    questions: ["q1", "q2", "q3", "q4"].map((question, i) => {
      return { question, kind: "", n: 1, correct: i < correct ? 1 : 0, studies: {} };
    }),
  });
  const run = (seed: number, ...heldOut: EvaluatedRun["heldOut"]): EvaluatedRun => {
    return { run: `run-${seed}`, seed, steps: 2, heldOut };
  };
  const finished = run(1, scores(0, 1), scores(2, 3));
  const training = run(2, scores(0, 3));
  const measure = (runs: readonly EvaluatedRun[], first?: readonly EvaluatedRun[]) =>
    measureArm({ label: "arm", runs, first }, { suite: "test", temperature: 1 }, "held-out", (question) => question);
  const measured = measure([finished, training]);
  // Before: 1 and 3 of 4. After: 3 of 4, by the first run alone, which had 1 of 4 before.
  expect(measured).toMatchObject({ before: { value: 0.5 }, after: { value: 0.75 }, gain: { value: 0.5 } });
  const { after, gain } = measure([finished]);
  expect(measured).toMatchObject({ after, gain });
  const best = [run(1, scores(0, 1), scores(2, 4)), run(2, scores(0, 1), scores(2, 4))];
  const { againstFirst } = measure(best.slice(0, 1), [finished]);
  expect(againstFirst).toMatchObject({ value: 0.25, low: expect.any(Number), high: expect.any(Number) });
  expect(measure(best, [finished, training]).againstFirst).toEqual(againstFirst);
});
