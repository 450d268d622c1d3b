/** @file Following a run: every step once, every evaluation once, then its end, and what it waits for. */
import { expect, test } from "vitest";
import { followRun, type RunEvent } from "../../cli/local/follow.ts";
import { describeLosses } from "../../cli/local/lost-answers.ts";
import { readJobs } from "../../cli/local/read-records.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { AgentRecord } from "../../core/contracts/records.ts";
import { waitingFor } from "../../core/monitoring/waiting.ts";
import type { Store } from "../../core/ports.ts";
import { config, groups, job, RUN, step, storeOfFinishedRun, worker } from "./records.ts";
import { probe, recordProbe, withServerOptimizer } from "./server-optimizer.ts";

const options = (from: number) => ({ from, pollSeconds: 0.001, signal: new AbortController().signal });

async function events(from: number): Promise<RunEvent[]> {
  const seen: RunEvent[] = [];
  for await (const event of followRun(await storeOfFinishedRun(), config, options(from))) seen.push(event);
  return seen;
}

const suites = [...config.evaluation.suites, EvaluationSuite.parse({ name: "late", when: "ends" })];
/** The config with one more suite, on which the finished run has not been evaluated yet. */
const unfinished: RunConfig = { ...config, evaluation: { ...config.evaluation, suites } };

/** The events of a run that is evaluated on `late` as soon as it waits for that, so that its records are read twice. */
async function eventsWhileEvaluated(store: Store, followed: RunConfig): Promise<RunEvent[]> {
  const seen: RunEvent[] = [];
  for await (const event of followRun(store, followed, options(1))) {
    seen.push(event);
    if (event.kind !== "waiting") continue;
    for (const one of [job("late", 0, 1), job("late", 1, 1)])
      await store.table.insert(tableKeys.job(RUN, one.job), { ...one });
  }
  return seen;
}

const ofKind = (seen: readonly RunEvent[], kind: RunEvent["kind"]) => seen.filter((event) => event.kind === kind);

test("a finished run yields its steps, the end of training, its evaluations and its end, in this order", async () => {
  expect((await events(0)).map(({ kind }) => kind)).toEqual([
    "step",
    "trained",
    ...Array.from({ length: 4 }, () => "evaluation"),
    "ended",
  ]);
});

test("steps that were reported before are not reported again", async () => {
  expect(ofKind(await events(1), "step")).toEqual([]);
});

test("evaluations that ended before it was followed are reported from the oldest team to the newest", async () => {
  const store = await storeOfFinishedRun();
  for (const one of [job("sampled", 10, 1), job("sampled", 9, 1)])
    await store.table.insert(tableKeys.job(RUN, one.job), { ...one });
  const seen: number[] = [];
  for await (const event of followRun(store, config, options(1)))
    if (event.kind === "evaluation" && event.evaluation.suite === "sampled") seen.push(event.evaluation.team);
  expect(seen).toEqual([0, 1, 9, 10]);
});

test("after training, the run reports which evaluation it waits for until all are done, and each evaluation once", async () => {
  const seen = await eventsWhileEvaluated(await storeOfFinishedRun(), unfinished);
  expect(ofKind(seen, "waiting")).toEqual([{ kind: "waiting", step: 1, for: "evaluation 5 of 6: late after 0 steps" }]);
  expect(ofKind(seen, "evaluation")).toHaveLength(6);
  expect(ofKind(seen, "trained")).toHaveLength(1);
  expect(seen.at(-1)).toEqual({ kind: "ended", status: "finished", reason: "" });
});

test("an evaluation that lost answers says how many, and why", async () => {
  const store = await storeOfFinishedRun();
  const [first = expect.fail()] = await readJobs(store, RUN);
  const { job: id, team, suite, n, correct, runs, interval } = first;
  const score = { n, correct, runs, interval, questions: [], seconds: 1 };
  const lost = { lost: ["q1", "q2"], reasons: ["judge: it gave no verdict"] };
  const result = { run: RUN, job: id, team, suite, ...score, ...lost };
  await store.objects.delete([objectKeys.evaluation(RUN, id)]);
  await store.objects.commit(objectKeys.evaluation(RUN, id), new TextEncoder().encode(JSON.stringify(result)));
  const seen: RunEvent[] = [];
  for await (const event of followRun(store, config, options(1))) seen.push(event);
  const losses = seen.flatMap((event) => (event.kind === "evaluation" && event.lost ? [event] : []));
  expect(losses).toMatchObject([
    { evaluation: { team, suite }, lost: "2 answers lost, not counted (judge: it gave no verdict)" },
  ]);
});

test("of several reasons for lost answers, the first is shown, and how many more there are", () => {
  const lost = ["q1", "q2", "q3"];
  expect(describeLosses({ lost, reasons: ["a", "b"] })).toBe("3 answers lost, not counted (a; 1 more reason)");
  expect(describeLosses({ lost, reasons: ["a", "b", "c"] })).toBe("3 answers lost, not counted (a; 2 more reasons)");
});

test("what was measured about a server's own optimizer is reported once", async () => {
  const store = await storeOfFinishedRun();
  await recordProbe(store);
  const seen = await eventsWhileEvaluated(store, withServerOptimizer(unfinished));
  expect(ofKind(seen, "waiting")).toHaveLength(1);
  expect(ofKind(seen, "optimizer")).toEqual([{ kind: "optimizer", agent: "main", optimizer: probe }]);
  // Nothing is reported for an agent whose config declares no server optimizer.
  expect(ofKind(await eventsWhileEvaluated(store, unfinished), "optimizer")).toEqual([]);
});

test("a run waits for the missing workers, the rollouts or the trainers", () => {
  const open = { ...step, state: "open" as const };
  const agents: AgentRecord[] = ["main", "searcher"].map((agent) => ({
    run: RUN,
    agent,
    version: agent === "main" ? 1 : 0,
    trainer: "",
    fence: 0,
    takeovers: 0,
  }));
  const both = [worker("main"), worker("searcher")];
  const phrase = (state: Partial<Parameters<typeof waitingFor>[1]>) =>
    waitingFor(config, { step: open, groups, agents, workers: both, ...state });
  expect(phrase({ step: undefined })).toBe("planning the next step");
  expect(phrase({ workers: [] })).toBe("waiting for: main/rollout, searcher/rollout");
  expect(phrase({ workers: [worker("main"), worker("searcher", "dead")] })).toBe("waiting for: searcher/rollout");
  expect(phrase({})).toBe("rollouts 4/4");
  // Main has published version 1 already.
  expect(phrase({ step: { ...step, state: "ready" } })).toBe("training searcher");
  expect(phrase({ step: { ...step, state: "ready" }, workers: [worker("main")] })).toBe("waiting for: searcher/train");
  const draining = [worker("main"), worker("searcher", "draining")];
  expect(phrase({ workers: draining })).toBe("waiting for: searcher/rollout");
  const ready = { ...step, state: "ready" as const };
  expect(phrase({ step: ready, workers: draining })).toBe("waiting for: searcher/train");
  const training = agents.map((one) => ({ ...one, trainer: `${one.agent}-1` }));
  expect(phrase({ step: ready, workers: draining, agents: training })).toBe("training searcher");
});
