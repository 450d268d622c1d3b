/**
 * @file Warnings of a run, not repeated at every step: no variance, more calls than d (eq 11), quantization, shared policies, gradient norms, KL,
 * entropy, and agents that do not learn.
 */
import { expect, test } from "vitest";
import * as warnings from "../../cli/warnings.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { StepSummary } from "../../core/monitoring/step-summary.ts";
import { config } from "./records.ts";

const learns = { groups: 4, zeroVariance: 0, rollouts: 8 };
const summary = (fields: object) =>
  ({ ...learns, calls: {}, training: {}, reward: {}, ...fields }) as unknown as StepSummary;
const numbered = (steps: readonly StepSummary[]) => steps.map((one, step) => ({ ...one, step }));
const stepWarnings = (of: RunConfig, steps: readonly StepSummary[]) => warnings.stepWarnings(of, numbered(steps));
const runWarnings = (of: RunConfig, steps: readonly StepSummary[]) => warnings.runWarnings(of, numbered(steps));
const stepsOf = (...histograms: number[][]) => histograms.map((searcher) => summary({ calls: { searcher } }));
const firstStep = (zeroVariance: number, wellFormed: number) => [
  summary({ groups: 4, zeroVariance, wellFormed, calls: {} }),
];
const under = (alignment: object) => RunConfig.parse({ ...config, algorithm: { alignment } });
const withFrozen = (agent: string) =>
  RunConfig.parse({ ...config, agents: { ...config.agents, [agent]: { ...config.agents[agent], trained: false } } });

test("an app whose main agent sampled nothing in the first step is reported; this program's own loop always calls it", () => {
  const withApp = RunConfig.parse({ ...config, runner: "recipe" });
  const sampled = (actionTokens: number, zeroVariance = 0) => [
    summary({ zeroVariance, wellFormed: 1, training: { main: { actionTokens } } }),
  ];
  const uncalled = [expect.stringMatching(/^the first step taught 'main' nothing: the app .* never called 'main'/)];
  expect(stepWarnings(withApp, sampled(0))).toEqual(uncalled);
  expect(stepWarnings(withApp, sampled(0, 4))).toEqual(uncalled);
  expect(stepWarnings(withApp, sampled(9))).toEqual([]);
  expect(stepWarnings(config, sampled(0))).toEqual([]);
});

test("if more than 1% of the rollouts call a sub-agent more than d times, one line says so after every tenth step", () => {
  const often = stepsOf(...Array<number[]>(9).fill([0, 64]), [0, 50, 0, 14]);
  const [line, ...others] = stepWarnings(under({ d: 2 }), often);
  expect(line).toMatch(
    /2\.2% .* 'searcher' more than d = 2 .* randomly drops all but d .* raise algorithm\.alignment\.d/,
  );
  expect(others).toEqual([]);
  expect(stepWarnings(under({ d: 2 }), often.slice(1))).toEqual([]);
  expect(stepWarnings(under({ d: 3 }), often)).toEqual([]);
  expect(stepWarnings(under({ d: 2, mode: "none" }), often)).toEqual([]);
  // Nothing is trained on the calls of a frozen sub-agent.
  expect(stepWarnings(withFrozen("searcher"), often)).toEqual([]);
});

test("a quantized sampler that is far from its trainer is reported the first time only", () => {
  const quantized = (quantization: string, tisCap: number | null = null) =>
    RunConfig.parse({
      ...config,
      algorithm: { tisCap },
      agents: {
        ...config.agents,
        main: { ...config.agents["main"], policy: "compiled", engine: { quantization } },
      },
    });
  const steps = (...kls: number[]) => kls.map((kl) => summary({ calls: {}, training: { main: { kl } } }));
  const [line, ...others] = stepWarnings(quantized("int4"), steps(1e-8, 0.02));
  expect(line).toMatch(
    /'main', whose base is int4, is 0\.020 nats per token.*set algorithm\.tisCap=2 or agents\.main\.engine\.quantization=none$/,
  );
  expect(others).toEqual([]);
  expect(stepWarnings(quantized("int4"), steps(0.02, 0.02))).toEqual([]);
  expect(stepWarnings(quantized("int4"), steps(0.02, 0.01))).toEqual([]);
  expect(stepWarnings(quantized("int4", 2), steps(1e-8, 0.02))).toEqual([]);
  expect(stepWarnings(quantized("none"), steps(1e-8, 0.02))).toEqual([]);
});

test("an agent that dominates the gradient of a shared policy while another gets worse is reported every ten steps", () => {
  const agents = {
    ...config.agents,
    searcher: { ...config.agents["main"], policy: "of:main", delegates: [], share: 1 },
  };
  const shared = RunConfig.parse({ ...config, agents });
  const stepsWith = (searcherNorm: number | null, ...searcher: number[]) =>
    searcher.map((reward) =>
      summary({
        training: { main: { gradientNorm: 0.95 }, searcher: { gradientNorm: searcherNorm } },
        reward: { main: 0.5, searcher: reward },
      }),
    );
  const falling = [...Array<number>(10).fill(0.8), ...Array<number>(10).fill(0.6)];
  const [line, ...others] = stepWarnings(shared, stepsWith(0.05, ...falling));
  expect(line).toMatch(
    /^'main' has 95% of the gradient norms in the policy of 'main', .* 'searcher' fell from 0\.800 to 0\.600: raise agents\.searcher\.share/,
  );
  expect(others).toEqual([]);
  expect(stepWarnings(shared, stepsWith(0.05, ...falling, 0.6))).toEqual([]);
  expect(stepWarnings(shared, stepsWith(0.2, ...falling))).toEqual([]);
  expect(stepWarnings(shared, stepsWith(0.05, ...Array<number>(20).fill(0.8)))).toEqual([]);
  // Agents with separate policies get no warning.
  expect(stepWarnings(config, stepsWith(0.05, ...falling))).toEqual([]);
  // Without gradient norms there is no warning.
  const unseen = stepsWith(null, ...falling).map((step) => ({ ...step, training: { main: { gradientNorm: null } } }));
  expect(stepWarnings(shared, unseen as unknown as StepSummary[])).toEqual([]);
});

test("a first zero-variance step is reported with its cause and a remedy; the second one is not reported", () => {
  const [malformed] = stepWarnings(under({}), firstStep(4, 0));
  expect(malformed).toMatch(
    /no rollout is well-formed.*show \S+ 0; then teach it from demonstrations first: .* sft \S+ --to/,
  );
  expect(stepWarnings(under({}), firstStep(4, 0.5))[0]).toMatch(
    /all rollouts of a question have the same reward.*show \S+ 0; ask easier questions/,
  );
  expect(stepWarnings(under({}), [outcome(1)])[0]).toMatch(/show \S+ 0; ask harder questions$/);
  expect(stepWarnings(under({}), firstStep(3, 0.5))).toEqual([]);
  expect(stepWarnings(under({}), [...firstStep(4, 0), ...firstStep(4, 0)])).toEqual([]);
});

test("a zero-variance step is not reported if the main agent is frozen, or if every rollout was lost", () => {
  const constant = summary({ groups: 4, zeroVariance: 4, correct: 0.5, wellFormed: 1 });
  for (const steps of [firstStep(4, 0), [constant, constant, constant]]) {
    expect(stepWarnings(under({}), steps)).toHaveLength(1);
    expect(stepWarnings(withFrozen("main"), steps)).toEqual([]);
    const lost = steps.map((step) => ({ ...step, rollouts: 0 }));
    expect(stepWarnings(under({}), lost)).toEqual([]);
  }
});

const outcome = (correct: number, zeroVariance = 4, wellFormed = 1) =>
  summary({ groups: 4, zeroVariance, correct, wellFormed, calls: {} });
const learning = outcome(0.5, 1);

test("three steps in a row in which every rollout is wrong are reported once per streak, with the first step and remedies", () => {
  const wrong = outcome(0);
  const collapse = [learning, wrong, wrong, wrong];
  const [line, ...others] = stepWarnings(under({}), collapse);
  expect(line).toMatch(
    /^since step 1 \(counted from 0\), every rollout is wrong, though 100% are well-formed.*show \S+ 3.*learningRate.*sft \S+ --to.*easier levels first \(curriculum\)/,
  );
  expect(others).toEqual([]);
  // Not before the third step, and not again.
  expect(stepWarnings(under({}), collapse.slice(0, -1))).toEqual([]);
  expect(stepWarnings(under({}), [...collapse, wrong])).toEqual([]);
  // Interrupted by a step with variance, or by one where nothing is well-formed.
  expect(stepWarnings(under({}), [wrong, wrong, outcome(0, 3), wrong])).toEqual([]);
  expect(stepWarnings(under({}), [learning, wrong, outcome(0, 4, 0), wrong])).toEqual([]);
  const again = [...collapse, wrong, learning, wrong, wrong, wrong];
  expect(runWarnings(under({}), again).map((text) => text.slice(0, 12))).toEqual(["since step 1", "since step 6"]);
});

test("once a run's first steps have expired, its warnings keep the step numbers, and no remaining step counts as the first", () => {
  const wrong = outcome(0);
  const left = numbered([learning, learning, wrong, wrong, wrong]).slice(2);
  const [line, ...others] = warnings.runWarnings(under({}), left);
  expect(line).toMatch(/^since step 2 \(counted from 0\), every rollout is wrong.*show \S+ 4;/);
  expect(others).toEqual([]);
});

test("three steps in a row in which every rollout is correct are reported: the questions are too easy", () => {
  const easy = outcome(1);
  expect(stepWarnings(under({}), [learning, easy, easy, easy])[0]).toMatch(
    /^since step 1 \(counted from 0\), every rollout is correct.*too easy; ask harder ones \(curriculum\)/,
  );
  expect(stepWarnings(under({}), [learning, easy, outcome(1, 3), easy])).toEqual([]);
});

test("a gradient norm above ten times the median of the previous ten steps is reported", () => {
  const steps = (...norms: number[]) => norms.map((gradientNorm) => summary({ training: { main: { gradientNorm } } }));
  const calm = Array<number>(10).fill(0.2);
  expect(stepWarnings(under({}), steps(...calm, 3))).toEqual([
    expect.stringMatching(/gradient norm of 'main' jumped to 3\.00, from a median of 0\.200 over 10 steps/),
  ]);
  expect(stepWarnings(under({}), steps(...calm, 1.9))).toEqual([]);
  expect(stepWarnings(under({}), steps(...calm.slice(1), 3))).toEqual([]);
});

test("three steps in a row with constant rewards, neither all wrong nor all correct, are reported once", () => {
  const constant = summary({ groups: 4, zeroVariance: 4, correct: 0.5, wellFormed: 1, reward: { main: 0.4 } });
  const [line, ...others] = stepWarnings(under({}), [learning, constant, constant, constant]);
  expect(line).toMatch(
    /^since step 1 \(counted from 0\), the rewards of a question's rollouts are all equal, 0\.400 on average, and 100%/,
  );
  expect(others).toEqual([]);
  expect(stepWarnings(under({}), [learning, constant, constant])).toEqual([]);
  expect(stepWarnings(under({}), [learning, constant, constant, constant, constant])).toEqual([]);
});

test("a runaway KL is reported when it passes the limit, and again each time it has doubled since the last report", () => {
  const steps = (...kls: number[]) => kls.map((kl) => summary({ training: { main: { kl } } }));
  expect(stepWarnings(under({}), steps(0.01, 0.2))).toEqual([
    expect.stringMatching(
      /the KL between sampler and trainer of 'main' is 0\.200 nats per token, and was at most 0\.0100 before/,
    ),
  ]);
  const remedies = (algorithm: object) => {
    const [line = ""] = stepWarnings(RunConfig.parse({ ...config, algorithm }), steps(0.01, 0.2));
    return line.split("; ")[1];
  };
  const rate = "lower agents.main.optimizer.learningRate";
  expect(remedies({})).toBe(`${rate}, or set algorithm.tisCap`);
  expect(remedies({ tisCap: 2 })).toBe(rate);
  expect(remedies({ epochs: 2, tisCap: 2 })).toBe(`${rate} or algorithm.epochs`);
  expect(stepWarnings(under({}), steps(0.01, 0.2, 0.3))).toEqual([]);
  expect(stepWarnings(under({}), steps(0.01, 0.2, 0.3, 0.7))).toHaveLength(1);
  expect(stepWarnings(under({}), steps(0.01, 0.09))).toEqual([]);
  const gradual = [0.06, 0.11, 0.2, 0.35, 0.6];
  const reported = gradual.map((_, i) => stepWarnings(under({}), steps(...gradual.slice(0, i + 1))).length);
  expect(reported).toEqual([0, 1, 0, 1, 0]);
});

test("an entropy collapse is reported once", () => {
  const steps = (...all: number[]) => all.map((entropy) => summary({ training: { main: { entropy } } }));
  const first = Array<number>(10).fill(0.3);
  expect(stepWarnings(under({}), steps(...first, 0.02))).toEqual([
    expect.stringMatching(/the entropy of 'main' collapsed to 0\.020 nats per token, from 0\.30 in its first 10 steps/),
  ]);
  expect(stepWarnings(under({}), steps(...first, 0.02, 0.01))).toEqual([]);
  expect(stepWarnings(under({}), steps(...first, 0.04))).toEqual([]);
  // One that began in the first ten steps is reported after them.
  const early = [...first.slice(3), 0.02, 0.02, 0.02];
  expect(stepWarnings(under({}), steps(...early))).toEqual([]);
  expect(stepWarnings(under({}), steps(...early, 0.02))).toHaveLength(1);
  expect(stepWarnings(under({}), steps(...early, 0.02, 0.02))).toEqual([]);
});

test("an agent whose reward does not move while another's rises is reported every ten steps", () => {
  const steps = (main: readonly number[], searcher: number) =>
    main.map((reward) => summary({ reward: { main: reward, searcher } }));
  const rising = Array.from({ length: 20 }, (_, i) => i / 40);
  expect(stepWarnings(under({}), steps(rising, 0.5))).toEqual([
    expect.stringMatching(/the reward of 'main' rose and that of 'searcher' did not move/),
  ]);
  expect(stepWarnings(under({}), steps(rising.slice(1), 0.5))).toEqual([]);
  expect(stepWarnings(under({}), steps(Array<number>(20).fill(0.5), 0.5))).toEqual([]);
});

test("the reward of an agent that was not called counts neither as constant nor as rising", () => {
  const steps = (main: (step: number) => number, searcher: (step: number) => number | null) =>
    Array.from({ length: 20 }, (_, i) => summary({ reward: { main: main(i), searcher: searcher(i) } }));
  const rising = (step: number) => step / 40;
  expect(
    stepWarnings(
      under({}),
      steps(rising, () => null),
    ),
  ).toEqual([]);
  const lateCalls = (step: number) => (step < 10 ? null : 0.5);
  expect(
    stepWarnings(
      under({}),
      steps(() => 0.5, lateCalls),
    ),
  ).toEqual([]);
});

test("runWarnings reads each step a bounded number of times, and returns the warnings of stepWarnings after each step", () => {
  let reads = 0;
  const kls = Array.from({ length: 400 }, (_, i) => (i % 50 === 49 ? 3 ** (i / 50) : 0.01));
  const steps = kls.map((kl, step) => {
    const training = { main: { kl, entropy: step < 300 ? 0.3 : 0.01, gradientNorm: step % 90 === 89 ? 5 : 0.1 } };
    const get = () => {
      reads++;
      return training;
    };
    return Object.defineProperty(summary({ step }), "training", { get });
  });
  const found = warnings.runWarnings(under({}), steps);
  expect(reads).toBeLessThan(30 * steps.length);
  expect(found.filter((line) => line.includes("the KL"))).toHaveLength(8);
  expect(found.filter((line) => line.includes("gradient norm"))).toHaveLength(4);
  expect(found.filter((line) => line.includes("entropy"))).toHaveLength(1);
  expect(found).toEqual(steps.flatMap((_, i) => warnings.stepWarnings(under({}), steps.slice(0, i + 1))));
});
