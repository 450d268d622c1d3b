/**
 * @file A simulation from its command: the program's own functions and workers, in virtual time, and what it reports about a load. Also its
 * options, and the plan of a load.
 */
import { beforeAll, expect, test } from "vitest";
import { readArguments } from "../../bench/simulate/arguments.ts";
import { rowOf } from "../../bench/simulate/loads.ts";
import { planOf } from "../../bench/simulate/plan.ts";
import { openTeamEngine } from "../../bench/simulate/team.ts";
import { engineOptions } from "../../gpu-workers/engine-options.ts";
import { groupInsertions, type Printed, simulated } from "./simulated.ts";

const PER_MINUTE = 64;
/** Few, so that several workers share a step. */
const SLOTS = 8;

let figures: Printed;
let warnings: string;

beforeAll(async () => {
  const load = ["--rollouts-per-minute", String(PER_MINUTE), "--agents", "3", "--hours", "2"];
  const small = ["main", "searcher-1", "searcher-2"].flatMap((agent) => [
    "--set",
    `agents.${agent}.engine.slots=${SLOTS}`,
  ]);
  ({ figures, warnings } = await simulated(...load, ...small));
}, 300_000);

test("the run keeps the requested rate, with nothing lost", () => {
  expect(figures.reached).toBeGreaterThan(0.95 * PER_MINUTE);
  expect(figures.reached).toBeLessThan(1.05 * PER_MINUTE);
  expect(figures.problems).toEqual({});
  expect(warnings).toBe("");
});

test("each outcome is committed once and scored once", () => {
  const { requestsPerRollout: requests } = figures;
  expect(requests["worker PutObject outcomes"]).toBeCloseTo(1, 1);
  expect(requests["score-rollout GetObject outcomes"]).toBeCloseTo(1, 1);
  expect(requests["score-rollout GetObject invocations"]).toBeCloseTo(requests["worker PutObject invocations"] ?? 0, 1);
});

test("each group is inserted once: no two functions open a step together", () => {
  const [inserted, refused] = groupInsertions(figures);
  // Eight rollouts per question.
  expect(inserted).toBeCloseTo(1 / 8, 10);
  expect(refused).toBe(0);
});

test("requests whose condition fails are counted by kind", () => {
  expect(figures.refusedPerRollout["worker UpdateItem GROUP"]).toBeGreaterThan(0);
  for (const [name, refused] of Object.entries(figures.refusedPerRollout)) {
    expect(refused, name).toBeGreaterThan(0);
    expect(refused, name).toBeLessThanOrEqual(figures.requestsPerRollout[name] ?? 0);
  }
});

test("several workers share a step, and none reads all of its groups whenever a rollout ends", () => {
  expect(figures.workers).toBe(4 + 2 * 5);
  const groups = PER_MINUTE / 8;
  expect(figures.requestsPerRollout["worker GetItem GROUP"] ?? 0).toBeLessThan(groups);
  expect(figures.requestsPerRollout["worker UpdateItem GROUP"] ?? 0).toBeLessThan(1);
});

test("limits are listed by share, a partition of the run among them, and none is exceeded", () => {
  const shares = figures.limits.map(({ share }) => share);
  expect(shares).toEqual(shares.toSorted((a, b) => b - a));
  expect(figures.limits.find(({ what }) => what.startsWith("read units per second of a DynamoDB"))).toMatchObject({
    ...{ where: expect.stringMatching(/^(RUN|GROUP)#simulated/), limit: 3000 },
  });
  expect(shares[0]).toBeLessThan(1);
});

test("the busiest second of S3 has at least as many requests as an average one", () => {
  const busiest = (what: string) => figures.limits.find((use) => use.what.startsWith(what))?.used;
  const seconds = 2 * 3600;
  expect(busiest("S3 PUTs")).toBeGreaterThanOrEqual(figures.s3.puts / seconds);
  expect(busiest("S3 GETs")).toBeGreaterThanOrEqual(figures.s3.reads / seconds);
});

test("the table's dollars per 1,000 rollouts are those of the requested rate, even if the runs are slower", () => {
  const row = rowOf({ perHour: 1e6, runs: 1 }, { ...figures, usd: { all: 20 }, reached: 10_000 });
  // 20 dollars for a million rollouts.
  expect(row).toContain("20.000; 0.0200");
});

test("totals cover the requested hours", () => {
  const rollouts = PER_MINUTE * 120;
  expect(figures.functions.invocations).toBeGreaterThan(rollouts / 10);
  expect(figures.s3.puts).toBeGreaterThan(2 * rollouts);
  expect(figures.s3.puts).toBeLessThan(2.65 * rollouts);
  expect(figures.usd["S3 PUTs"]).toBeCloseTo(figures.s3.puts * 5e-6, 10);
});

test("exactly one rate is required, and none with --table; anything else is refused, and the message names the options", () => {
  const parsed = readArguments(["--rollouts-per-hour", "600", "--agents", "3"]);
  expect(parsed).toEqual({ load: { rolloutsPerMinute: 10, runs: 1, agents: 3, set: [] }, hours: 1, as: "text" });
  for (const wrong of ["", "--rollouts 7", "--rollouts-per-minute 1 --rollouts-per-hour 60", "--table --json"])
    expect(() => readArguments(wrong.split(" ").filter(Boolean)), wrong).toThrow(/--(rollouts-per-minute|json)/);
  expect(() => readArguments(["--rollouts-per-minute", "many"])).toThrow("rollouts-per-minute");
  for (const fixed of ["--rollouts-per-hour", "--runs", "--hours"])
    expect(() => readArguments(["--table", fixed, "2"]), fixed).toThrow("--table uses fixed loads");
});

test.each(["steps=99", "draws=tokens", "nothing=7"])("--set %s is refused", (setting) => {
  expect(() => planOf({ rolloutsPerMinute: 60, runs: 1, agents: 2, set: [setting] })).toThrow(setting.split("=")[0]);
});

test("the window and its warm-up follow from the size of the step, even if a setting gives it", () => {
  const planWith = (rolloutsPerMinute: number, questions: number) =>
    planOf({ rolloutsPerMinute, runs: 1, agents: 3, set: [`questionsPerStep=${questions}`] });
  // Without the setting, steps of 6,000 rollouts, and of 64.
  expect(planWith(6000, 1)).toMatchObject({ rolloutsPerStep: 8, warmUp: 1, measured: 3 });
  expect(planWith(60, 500)).toMatchObject({ rolloutsPerStep: 4000, warmUp: 0, measured: 1 });
});

test("a version of several optimizer steps takes the time of training once", async () => {
  const { configs } = planOf({ rolloutsPerMinute: 60, runs: 1, agents: 2, set: ["algorithm.minibatches=2"] });
  const { main = expect.fail() } = configs[0].agents;
  let paced = 0;
  const engine = openTeamEngine(configs[0], async () => {
    paced += 1;
  });
  const trainer = await engine.openTrainer(new Map(), engineOptions(main));
  for (const total of [1, 2]) {
    for (let minibatch = 0; minibatch < 2; minibatch++) await trainer.optimizerStep(main.optimizer);
    expect(paced).toBe(total);
    await trainer.save();
  }
});

test("several runs share the rate, and have the same plan apart from their names", () => {
  const [one, four] = [1, 4].map((runs) => planOf({ rolloutsPerMinute: 600 * runs, runs, agents: 2, set: [] }));
  expect(four).toMatchObject({ stepSeconds: one?.stepSeconds, workers: one?.workers });
  const names = ["simulated", "simulated-2", "simulated-3", "simulated-4"];
  expect(four?.configs).toEqual(names.map((run) => ({ ...one?.configs[0], run })));
});

test("a load gets as many workers as it keeps busy, and a step of matching size", () => {
  const [small, large] = [60, 6000].map((rolloutsPerMinute) =>
    planOf({ rolloutsPerMinute, runs: 1, agents: 3, set: [] }),
  );
  expect(small).toMatchObject({ rolloutsPerStep: 64, stepSeconds: 64, workers: { main: 1, "searcher-1": 1 } });
  // One wave of 6,000, 512 at once in a main worker; 1.25 calls each, 256 at once in a worker of each of two sub-agents.
  expect(large).toMatchObject({ rolloutsPerStep: 6000, stepSeconds: 60, workers: { main: 12, "searcher-1": 15 } });
});
