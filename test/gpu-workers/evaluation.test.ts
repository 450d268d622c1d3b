/**
 * @file Evaluation jobs: a suite repeats its questions in independent runs, and its scores and interval cover all of these. How the end or a
 * halt of the training run affects its jobs, and what an evaluator leaves behind when it is stopped or fails.
 */
import { expect, test, vi } from "vitest";
import { resumeInStore } from "../../cli/local/resume-in-store.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { objectKeys, type TableKey, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { ObjectStore, PolicyEngine } from "../../core/ports.ts";
import type { Scorer } from "../../core/scorer.ts";
import { accuracyInterval } from "../../core/training/confidence-interval.ts";
import { endRun } from "../../core/training/writes.ts";
import type { WorkerParts } from "../../gpu-workers/worker-process.ts";
import { beginEvaluation } from "../fixtures/relay/evaluation.ts";
import { relayEngine, scriptedEngine } from "../fixtures/relay/policy.ts";
import { heldOutQuestions } from "../fixtures/relay/questions.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { startWorker } from "../fixtures/relay/world.ts";

const never = new AbortController().signal;

/** A run with one suite. */
const begun = () => beginEvaluation({ evaluation: { suites: [{ name: "sampled" }] } });

/** Evaluates team 0 on one suite: its job, its result, and the outcomes of all its rollouts. */
async function evaluateTeam0(suite: Partial<EvaluationSuite>, parts: Partial<WorkerParts> = {}) {
  const suites = [{ name: "sampled", ...suite }];
  const { memory, config, evaluate } = await beginEvaluation({ evaluation: { suites } });
  const done = await evaluate(parts);
  const read = async (key: string) => JSON.parse(new TextDecoder().decode(await memory.objects.get(key)));
  const result = EvaluationResult.parse(await read(objectKeys.evaluation(config.run, done.job)));
  const keys = memory.objects.keys().filter((key) => key.includes(`/evaluations/${done.job}/rollouts/`));
  const outcomes = await Promise.all(keys.map(async (key) => Outcome.parse(await read(key))));
  return { done, result, outcomes };
}

const ofRun = (outcomes: readonly Outcome[], rollout: number) =>
  outcomes.filter((one) => one.address.rollout === rollout);
const trajectoriesOf = (outcomes: readonly Outcome[]) =>
  JSON.stringify(outcomes.map((one) => (one.status === "finished" ? one.trajectory : one.reason)));

test("with three runs, run 0 is the same as with one, the others differ, and the job records the scores of all", async () => {
  const [one, three] = [await evaluateTeam0({}), await evaluateTeam0({ runs: 3 })];
  expect(one.outcomes.map(({ address }) => address.rollout)).toEqual(Array.from({ length: 6 }, () => 0));
  expect(ofRun(three.outcomes, 0)).toEqual(one.outcomes);
  const conversations = [0, 1, 2].map((run) => trajectoriesOf(ofRun(three.outcomes, run)));
  expect(new Set(conversations).size).toBe(3);

  expect(one.done).toMatchObject({ n: 6, runs: [{ n: 6, correct: one.done.correct }] });
  expect(three.done.n).toBe(18);
  expect(three.done.runs[0]).toEqual(one.done.runs[0]);
  expect(three.done.runs.map(({ n }) => n)).toEqual([6, 6, 6]);
  expect(three.done.runs.reduce((sum, { correct }) => sum + correct, 0)).toBe(three.done.correct);
  const { n, correct, runs, interval, questions } = three.result;
  expect(three.done).toMatchObject({ n, correct, runs, interval });
  const perQuestion = heldOutQuestions.map(({ answer }, group) =>
    three.outcomes.flatMap((one) =>
      one.status === "finished" && one.address.group === group ? [Number(one.conversation.answer === answer)] : [],
    ),
  );
  const scores = perQuestion.map((marks) => ({
    n: marks.length,
    correct: marks.reduce((sum, mark) => sum + mark, 0),
  }));
  expect(questions).toEqual(scores.map((score, i) => ({ question: heldOutQuestions[i]?.id, kind: "next", ...score })));
  expect(scores.map((score) => score.n)).toEqual([3, 3, 3, 3, 3, 3]);
  expect(interval).toEqual(accuracyInterval(scores));
});

test("rewards that change the question that they are given change no other score", async () => {
  const correct: Scorer["correct"] = (question, { answer }) => {
    const isCorrect = answer === question.answer;
    question.answer = "changed";
    return isCorrect ? 1 : 0;
  };
  const [plain, changing] = [
    await evaluateTeam0({ runs: 3 }),
    await evaluateTeam0({ runs: 3 }, { scorerOf: () => ({ correct }) }),
  ];
  expect(plain.done.correct).toBeGreaterThan(0);
  expect(changing.result.questions).toEqual(plain.result.questions);
});

test("more than one greedy run is refused, since all would be the same", () => {
  const suites = [{ name: "greedy", temperature: 0, runs: 3 }];
  expect(() => relayConfig({ evaluation: { suites } })).toThrow(/greedy runs would all be the same: set runs to 1/);
});

test("by default, a benchmark has three runs, and held-out questions and greedy suites have one", () => {
  const gaia = { name: "gaia", benchmark: "gaia", data: "gaia" } as const;
  const suites = [
    gaia,
    { ...gaia, name: "greedy", temperature: 0 },
    { ...gaia, name: "once", runs: 1 },
    { name: "mine" },
    { name: "more", runs: 4 },
  ];
  const config = relayConfig({ evaluation: { suites } });
  expect(config.evaluation.suites.map(({ runs }) => runs)).toEqual([3, 1, 1, 1, 4]);
  // A worker parses the parsed config again.
  expect(RunConfig.parse(config)).toEqual(config);
});

test("the evaluator of a halted run leaves its job queued, and ends with the reason", async () => {
  const { memory, config, jobs, evaluator } = await begun();
  await memory.table.update(endRun(config.run, { code: "user", reason: "its budget is spent" }));
  await expect(evaluator(never)).rejects.toMatchObject({
    code: "run-halted",
    message: expect.stringContaining("budget is spent"),
  });
  expect((await jobs()).map(({ state }) => state)).toEqual(["queued"]);
  const workers = await memory.table.query(tableKeys.run(config.run).pk, tablePrefixes.workers);
  expect(workers.map(({ state }) => state)).toEqual(["dead"]);
});

test("a service that refuses after training has finished halts the run; once resumed, the run is finished again and evaluations continue", async () => {
  const suites = [{ name: "greedy", temperature: 0, when: "ends", questions: 2 }];
  const { log, memory, store, functions, config, jobs, evaluator } = await beginEvaluation({
    steps: 1,
    evaluation: { suites },
  });
  const unpaid = new MgrpoError("endpoint-refused", "it wants to be paid first (HTTP 402)");
  const refusing: Scorer = {
    correct() {
      throw unpaid;
    },
  };
  const ended = await Promise.allSettled([
    startWorker(store, config.run, { agent: "main" }, never, log),
    startWorker(store, config.run, { agent: "searcher" }, never, log),
    evaluator(never, { scorerOf: () => refusing }),
  ]);
  expect(ended.at(-1)).toMatchObject({ reason: { code: "run-halted", message: expect.stringContaining("HTTP 402") } });
  const run = async () => RunRecord.parse(await memory.table.get(tableKeys.run(config.run)));
  expect(await run()).toMatchObject({ status: "halted", step: 1, reason: unpaid.message });

  await resumeInStore(store, config, await run(), {});
  await functions.tickAll();
  expect(await run()).toMatchObject({ status: "finished", step: 1, reason: "" });
  await evaluator(never, { scorerOf: () => ({ correct: () => 1 }) });
  const ends = (await jobs()).map(({ team, state, n }) => `${team} ${state} ${n}`);
  expect(ends.sort()).toEqual(["0 done 2", "1 done 2"]);
});

test("the jobs of a suite with `when: ends` wait until the run has finished", async () => {
  const suites = [{ name: "greedy", temperature: 0, when: "ends" }, { name: "sampled" }];
  const liveness = { heartbeatSeconds: 0.2, leaseSeconds: 10, pollSeconds: 0.02 };
  const { memory, store, config, jobs, evaluator } = await beginEvaluation({ liveness, evaluation: { suites } });
  const states = async () => Object.fromEntries((await jobs()).map(({ suite, state }) => [suite, state]));
  let reads = 0;
  const query: typeof store.table.query = (pk, prefix) => {
    if (prefix === tablePrefixes.jobs) reads += 1;
    return store.table.query(pk, prefix);
  };
  const stop = new AbortController();
  const evaluating = evaluator(stop.signal, {}, { ...store, table: { ...store.table, query } });
  await vi.waitFor(async () => expect(await states()).toEqual({ sampled: "done", greedy: "queued" }), 60_000);
  const before = reads;
  await vi.waitFor(() => expect(reads).toBeGreaterThan(before + 2), 60_000);
  expect(await states()).toEqual({ sampled: "done", greedy: "queued" });
  await memory.table.update(endRun(config.run, "finished"));
  await vi.waitFor(async () => expect(await states()).toEqual({ sampled: "done", greedy: "done" }), 60_000);
  stop.abort();
  await evaluating;
});

test("an evaluator keeps no model open between jobs: each job opens its team's models", async () => {
  const suites = [{ name: "sampled" }, { name: "greedy", temperature: 0, when: "ends" }];
  const { memory, config, evaluator } = await beginEvaluation({ evaluation: { suites } });
  const stop = new AbortController();
  const { engine, count } = countingEngine();
  const evaluating = evaluator(stop.signal, { engineOf: () => engine });
  await vi.waitFor(() => expect(count).toEqual({ opened: 2, closed: 2 }), 60_000);
  await memory.table.update(endRun(config.run, "finished"));
  await vi.waitFor(() => expect(count.opened).toBe(4), 60_000);
  stop.abort();
  await evaluating;
});

test("an evaluator that is stopped while it waits for a judge ends at once: the job is queued, and the verdict can be asked for again", async () => {
  const { memory, store, job, evaluator } = await begun();
  const claimed: TableKey[] = [];
  const table = {
    ...store.table,
    insert: async (...request: Parameters<typeof store.table.insert>) => {
      if (request[0].pk.includes("VERDICT")) claimed.push(request[0]);
      return store.table.insert(...request);
    },
  };
  let asked = 0;
  const silent: Scorer = {
    judge: "slow",
    correct() {
      asked += 1;
      return new Promise(() => {});
    },
  };
  const stop = new AbortController();
  const evaluating = evaluator(stop.signal, { scorerOf: () => silent }, { ...store, table });
  await vi.waitFor(() => expect(asked).toBeGreaterThan(0), 60_000);
  stop.abort();
  await evaluating;
  expect(await job()).toMatchObject({ state: "queued", owner: "" });
  expect(claimed).toHaveLength(asked);
  for (const key of claimed) expect(await memory.table.get(key)).toMatchObject({ heldUntil: 0 });
});

test("a live evaluator evaluates a reopened job again", async () => {
  const { memory, store, config, untilJob, evaluator } = await begun();
  let isFiltered = true;
  let first: string | undefined;
  const scorer: Scorer = {
    judge: "paid",
    correct({ id }) {
      first ??= id;
      if (!isFiltered || id !== first) return 1;
      throw new MgrpoError("judge-failed", "filtered", { evidence: { fault: "refused-text" } });
    },
  };
  const stop = new AbortController();
  const evaluating = evaluator(stop.signal, { scorerOf: () => scorer });
  await untilJob({ state: "done", n: 5 });
  isFiltered = false;
  await resumeInStore(store, config, RunRecord.parse(await memory.table.get(tableKeys.run(config.run))), {});
  await untilJob({ state: "done", n: 6, fence: 2 });
  stop.abort();
  await evaluating;
});

test("an outcome that another worker committed but the store has lost is a damaged record: no other outcome is scored instead", async () => {
  const { store, evaluator } = await begun();
  const objects: ObjectStore = {
    ...store.objects,
    commit: async (key, ...rest) => (key.includes("/rollouts/") ? false : store.objects.commit(key, ...rest)),
  };
  await expect(evaluator(never, {}, { ...store, objects })).rejects.toMatchObject({ code: "record-damaged" });
});

test.each([
  ["a fault of the store", false, new MgrpoError("store-unreachable", "no answer")],
  ["a bug", true, new RangeError("a bug")],
])("%s makes suspects of the rollouts in flight: %s", async (_what, isCrash, fault) => {
  const { store, job, evaluator } = await begun();
  const commit: ObjectStore["commit"] = (key, ...rest) =>
    key.includes("/rollouts/") ? Promise.reject(fault) : store.objects.commit(key, ...rest);
  const objects = { ...store.objects, commit };
  await expect(evaluator(never, {}, { ...store, objects })).rejects.toThrow(fault.message);
  const { state, suspects = {} } = await job();
  expect([state, Object.keys(suspects).length > 0]).toEqual(["queued", isCrash]);
});

test("a question without a reference answer has no score, not even that of a malformed answer, and is not lost", async () => {
  const withoutReference = heldOutQuestions[0]?.id;
  const scorer: Scorer = { isScored: ({ id }) => id !== withoutReference, correct: () => expect.fail("it was judged") };
  const engine = scriptedEngine(() => "<tool_call>nonsense");
  const { done, result } = await evaluateTeam0({}, { scorerOf: () => scorer, engineOf: () => engine });
  expect(done).toMatchObject({ n: 5, correct: 0 });
  expect(result.lost).toEqual([]);
  expect(result.questions.find(({ question }) => question === withoutReference)).toMatchObject({ n: 0 });
});

test("an evaluator that cannot give its job back ends with the error of the evaluation", async () => {
  const { store, evaluator } = await begun();
  const objects: ObjectStore = {
    ...store.objects,
    commit: async (key, ...rest) => (key.includes("/rollouts/") ? false : store.objects.commit(key, ...rest)),
  };
  const update: typeof store.table.update = async (change) => {
    const isRelease = change.set?.some(([path, value]) => path[0] === "owner" && value === "");
    if (isRelease) throw new MgrpoError("store-unreachable", "no answer");
    return store.table.update(change);
  };
  const through = { ...store, objects, table: { ...store.table, update } };
  await expect(evaluator(never, {}, through)).rejects.toMatchObject({ code: "record-damaged" });
});

/** The relay's engine, which counts the samplers that are opened and closed. */
function countingEngine() {
  const count = { opened: 0, closed: 0 };
  const engine: PolicyEngine = {
    ...relayEngine,
    async openSampler(...request) {
      const sampler = await relayEngine.openSampler(...request);
      count.opened += 1;
      return {
        ...sampler,
        async close() {
          await sampler.close();
          count.closed += 1;
        },
      };
    },
  };
  return { engine, count };
}
