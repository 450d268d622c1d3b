/**
 * @file A sub-agent that delegates: main calls the searcher, and the searcher the reader. Each agent has a worker, which the caller's worker
 * reaches over HTTP; an evaluator hosts all three agents.
 */
import { beforeAll, expect, test } from "vitest";
import { loadTrees } from "../../cli/show/load.ts";
import { drawText } from "../../cli/show/text.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { callPathOf, Invocation, Outcome } from "../../core/contracts/rollout.ts";
import { subReward } from "../../core/mgrpo/reward.ts";
import type { Tree } from "../../ui/views.ts";
import { levelsConfig, levelsEngine } from "../fixtures/relay/levels.ts";
import { recordsOf, startRelay } from "../fixtures/relay/world.ts";

const config = levelsConfig({ rolloutsPerQuestion: 4, evaluation: { suites: [{ name: "all" }] } });

async function run() {
  const { memory, work } = await startRelay(config);
  const parts = { engineOf: () => levelsEngine };
  const workers = [
    { agent: "main" },
    { agent: "searcher" },
    { agent: "reader" },
    { agent: "*", roles: ["eval" as const] },
  ];
  await Promise.all(workers.map((worker) => work(worker, parts)));
  return { memory, records: await recordsOf(memory, config) };
}

let ended: Awaited<ReturnType<typeof run>>;
beforeAll(async () => {
  ended = await run();
}, 60_000);

/** The objects whose keys contain `part`, parsed. */
async function objectsUnder<T>(part: string, read: (bytes: Uint8Array, key: string) => T): Promise<T[]> {
  const { objects } = ended.memory;
  const keys = objects.keys().filter((key) => key.includes(part));
  return Promise.all(keys.map(async (key) => read((await objects.get(key)) ?? new Uint8Array(), key)));
}

const invocationsOf = () => objectsUnder("/invocations/", (bytes, key) => parseJson(Invocation, bytes, key));

test("every agent trains and publishes a version per step, and a second run ends with the same records", async () => {
  const { records } = ended;
  expect(records.status).toBe("finished");
  for (const agent of ["main", "searcher", "reader"]) {
    expect(records.weights[agent]).toHaveLength(config.steps + 1);
    expect(new Set(records.weights[agent]).size).toBeGreaterThan(2);
  }
  expect(records.evaluations.every(({ state, n }) => state === "done" && n === 6)).toBe(true);
  expect((await run()).records).toEqual(records);
});

test("an outcome lists the invocations of all levels, each after its caller, and the record of each invocation lists those that it made", async () => {
  const found = new Map((await invocationsOf()).map((one) => [one.id, one]));
  const outcomes = await objectsUnder("/outcomes/", (bytes, key) => parseJson(Outcome, bytes, key));
  let deep = 0;
  for (const outcome of outcomes) {
    if (outcome.status !== "finished") continue;
    const paths = outcome.invocations
      .map(({ id }) => found.get(id))
      .map((one) => one && callPathOf(one.request).join("."));
    expect(paths).toEqual(paths.toSorted());
    expect(new Set(paths).size).toBe(paths.length);
    for (const { id, agent } of outcome.invocations) {
      const { invocations = [], request } = found.get(id) ?? expect.fail(id);
      expect(agent).toBe(request.callers ? "reader" : "searcher");
      for (const ref of invocations) {
        expect(found.get(ref.id)?.request.callers).toEqual(callPathOf(request));
        expect(outcome.invocations.map((one) => one.id)).toContain(ref.id);
      }
      deep += invocations.length;
    }
  }
  expect(deep).toBeGreaterThan(5);
});

test("two callers that delegate the same task at the same call position get ids and draws of their own: the call path is part of the invocation id and of the random stream's name", async () => {
  const reader = (await invocationsOf()).filter(({ request }) => request.agent === "reader");
  const same = new Map<string, Invocation[]>();
  for (const one of reader) {
    const { address, task, call } = one.request;
    const asked = JSON.stringify([address, task, call]);
    same.set(asked, [...(same.get(asked) ?? []), one]);
  }
  const twice = [...same.values()].filter((group) => group.length > 1);
  expect(twice.length).toBeGreaterThan(0);
  for (const group of twice) expect(new Set(group.map(({ id }) => id)).size).toBe(group.length);
  // Equal draws would give equal turns in every pair.
  expect(twice.some(([a, b]) => JSON.stringify(a?.conversation) !== JSON.stringify(b?.conversation))).toBe(true);
});

test("the reader's rewards follow eq 5 with the correctness that its caller passes down; the rollouts of its group have equal total weights", async () => {
  const found = new Map((await invocationsOf()).map((one) => [one.id, one]));
  const b = config.algorithm.subReward;
  const groups = ended.records.steps.flatMap((step) => step.groups);
  let compared = 0;
  for (const { rollouts, finalized } of groups) {
    const weights = new Map<string, number>();
    const { reader } = finalized;
    reader?.trajectories.forEach((name, i) => {
      const [rollout = ""] = String(name).split("/");
      weights.set(rollout, (weights.get(rollout) ?? 0) + (reader.weights[reader.weights.length === 1 ? 0 : i] ?? 0));
    });
    for (const weight of weights.values()) expect(weight).toBeCloseTo(1 / weights.size, 12);
    for (const score of Object.values(rollouts)) {
      if ("excluded" in score) continue;
      for (const { id, expert, reward } of score.invocations["reader"] ?? []) {
        const own = found.get(id) ?? expect.fail(id);
        const caller = score.invocations["searcher"]?.[own.request.callers?.[0] ?? -1] ?? expect.fail("no caller");
        const { conversation } = found.get(caller.id) ?? expect.fail(caller.id);
        const passed = conversation.stop === "answered" ? (0.4 * score.correct + 0.5 * caller.expert) / 0.9 : 0;
        expect(reward).toBeCloseTo(subReward(own.conversation.stop === "answered", passed, expert, b), 12);
        compared += 1;
      }
    }
  }
  expect(compared).toBeGreaterThan(5);
});

const below = (tree: Tree): Tree[] => tree.children.flatMap((child) => [child, ...below(child)]);

test("show draws the reader's conversations inside the searcher's", async () => {
  const trees = await loadTrees(ended.memory, config, { step: 0 });
  const drawn = trees.flatMap(below);
  const readers = (among: readonly Tree[]) => among.filter(({ title }) => title === "delegate → reader").length;
  const searchers = drawn.filter(({ title }) => title === "delegate → searcher");
  expect(readers(drawn)).toBeGreaterThan(0);
  expect(readers(searchers.flatMap(below))).toBe(readers(drawn));
  expect(trees.map(drawText).join("\n")).not.toContain("no turn names their tasks");
});
