/** @file score-rollout: eq 4 and 5 from committed objects; failed or inconsistent rollouts are excluded. */
import { beforeEach, expect, test, vi } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { digestOf } from "../../core/contracts/names.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Rewards } from "../../core/ports.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { bytes, conversationOf, playRollout, rewards, sha, teamConfig } from "../fakes/scripted-team.ts";
import { commitOutcome, key, started } from "./one-outcome.ts";

let store: ReturnType<typeof memoryStore>;
beforeEach(() => {
  store = memoryStore();
});

test("eq 4 and 5 of a correct rollout: R_M = 0.1 + 0.9 * 1 = 1; R_S = 0.1 + 0.4 * 1 + 0.5 * 1 = 1", async () => {
  const { functions, step, group } = await started(store, teamConfig());
  await commitOutcome(store, step);
  await functions.scoreRollout({ key });
  const digest = async (at: string) => digestOf(sha((await store.objects.get(at)) ?? ""));
  const id = "a".repeat(22);
  const sub = { id, reward: 1, expert: 1, digest: await digest(objectKeys.invocation("test", 0, id)) };
  expect((await group()).rollouts["0"]).toEqual({
    ...{ reward: 1, correct: 1, wellFormed: true, tokens: 2 },
    ...{ digest: await digest(key), invocations: { searcher: [sub] } },
  });
});

test.each([
  [
    "truncated sub, zero",
    {},
    { sub: { conversation: conversationOf("x!", null, "token-limit") } },
    { reward: 1, sub: 0, masked: undefined, judged: ["main"] },
  ],
  [
    "malformed main",
    {},
    { outcome: { conversation: conversationOf("?", null, "malformed") } },
    { reward: 0, sub: 0.6, masked: undefined, judged: ["searcher"] },
  ],
  [
    "truncated main, mask",
    { overlong: "mask" },
    { outcome: { conversation: conversationOf("?", null, "turn-limit") } },
    { reward: 0, sub: 0.6, masked: true, judged: ["searcher"] },
  ],
] as const)("the agents' own failures are scored, and not judged: %s", async (_name, algorithm, change, expected) => {
  const judged: string[] = [];
  const judge: Rewards = {
    correct(...args) {
      judged.push("main");
      return rewards.correct(...args);
    },
    expert(...args) {
      judged.push("searcher");
      return rewards.expert(...args);
    },
  };
  const { functions, step, group } = await started(store, teamConfig({ algorithm }), judge);
  await commitOutcome(store, step, change);
  await functions.scoreRollout({ key });
  const score = (await group()).rollouts["0"];
  if (!score || "excluded" in score) return expect.fail("not scored");
  // 0.6 = 0.1 + 0.4 * 0 + 0.5 * 1: the main agent's failure counts as an incorrect answer.
  expect(score.reward).toBe(expected.reward);
  expect(score.invocations["searcher"]?.[0]?.reward).toBeCloseTo(expected.sub);
  expect(score.masked).toBe(expected.masked);
  expect(judged).toEqual(expected.judged);
});

test("each agent's reward has its own weights and its own penalty", async () => {
  const config = teamConfig();
  const [main, searcher] = [config.agents["main"], config.agents["searcher"]];
  if (!main || !searcher) return expect.fail("no such agent");
  const agents = {
    main: {
      ...main,
      limits: { ...main.limits, contextTokens: 4 },
      algorithm: { mainReward: { format: 0.25, correct: 0.5 }, overlongPenalty: { bufferTokens: 2, factor: 1 } },
    },
    searcher: {
      ...searcher,
      limits: { ...searcher.limits, contextTokens: 4 },
      algorithm: {
        subReward: { format: 0, correct: 0.25, expert: 2 },
        overlongPenalty: { bufferTokens: 2, factor: 0.25 },
      },
    },
  };
  const { functions, step, group } = await started(store, { ...config, agents });
  const trajectory = { agent: "searcher", version: 0, tokens: [1, 2, 3], actions: [], logProbs: [] };
  await commitOutcome(store, step, { sub: { trajectory } });
  await functions.scoreRollout({ key });
  const score = (await group()).rollouts["0"];
  if (!score || "excluded" in score) return expect.fail("not scored");
  // Both: 3 tokens of 4, 1 of the 2 buffer tokens. main: 0.25 + 0.5 - 1 * 0.5. searcher: 0.25 + 2 - 0.25 * 0.5.
  expect(score.reward).toBe(0.25);
  expect(score.invocations["searcher"]?.[0]?.reward).toBe(2.125);
});

test("the overlong penalty of each agent depends on its own context limit and longest branch", async () => {
  const config = teamConfig({ algorithm: { overlongPenalty: { bufferTokens: 10, factor: 0.5 } } });
  const [main, searcher] = [config.agents["main"], config.agents["searcher"]];
  if (!main || !searcher) return expect.fail("no such agent");
  const tight = {
    ...config,
    agents: {
      main: { ...main, limits: { ...main.limits, contextTokens: 20 } },
      searcher: { ...searcher, limits: { ...searcher.limits, contextTokens: 40 } },
    },
  };
  const { functions, step, group } = await started(store, tight);
  const trajectory = (agent: string, tokens: number) => ({
    ...{ agent, version: 0, tokens: new Array(tokens).fill(1), actions: [[1, 2]], logProbs: [-1] },
  });
  await commitOutcome(store, step, {
    sub: { trajectory: trajectory("searcher", 34) },
    outcome: {
      trajectory: trajectory("main", 3),
      app: { branches: [trajectory("main", 16)], counts: {} },
    },
  });
  await functions.scoreRollout({ key });
  const score = (await group()).rollouts["0"];
  if (!score || "excluded" in score) return expect.fail(JSON.stringify(score));
  // main: 16 of 20, 6 of the 10 buffer tokens: 1 - 0.5 * 0.6. searcher: 34 of 40: 1 - 0.5 * 0.4.
  expect(score.reward).toBeCloseTo(0.7);
  expect(score.invocations["searcher"]?.[0]?.reward).toBeCloseTo(0.8);
});

const ID = "a".repeat(22);
const INVOCATION = objectKeys.invocation("test", 0, ID);

test.each([
  [
    "a failed outcome",
    {
      outcome: {
        status: "failed",
        reason: "tool backend",
        conversation: undefined,
        trajectory: undefined,
        invocations: undefined,
      },
    },
    "tool backend",
  ],
  ["a missing invocation", { isInvocationMissing: true }, "damaged: invocation runs/test/invocations/000000/"],
  [
    "an invocation whose bytes do not match the hash in the outcome",
    { outcome: { invocations: [{ id: ID, agent: "searcher", key: INVOCATION, sha256: "0".repeat(64) }] } },
    `damaged: invocation ${INVOCATION} is not the one that its outcome refers to`,
  ],
  [
    "an invocation with another id",
    { sub: { id: "b".repeat(22) } },
    `damaged: invocation ${INVOCATION} holds searcher's ${"b".repeat(22)}`,
  ],
  [
    "a trajectory of another version",
    { sub: { trajectory: { agent: "searcher", version: 7, tokens: [1], actions: [], logProbs: [] } } },
    "damaged: searcher sampled from version 7, but 0 was planned",
  ],
  ["another question", { outcome: { questionId: "other" } }, "damaged: its question is other"],
  ["an object that is not an outcome", { outcome: { status: "odd" } }, "damaged: runs/test/outcomes/000000/0/0.json"],
])("excluded, not scored: %s", async (_name, change, reason) => {
  const { functions, step, group } = await started(store, teamConfig());
  await commitOutcome(store, step, change);
  await functions.scoreRollout({ key });
  expect((await group()).rollouts["0"]).toEqual({ excluded: expect.stringContaining(reason) });
});

test("a reason of 450 KB, which a tool's server can cause, is shortened: the group stays writable", async () => {
  const { functions, step, group } = await started(store, teamConfig());
  const reason = `infrastructure: ${"x".repeat(450_000)} at the end`;
  const failed = { status: "failed", reason, conversation: undefined, trajectory: undefined, invocations: undefined };
  await commitOutcome(store, step, { outcome: failed });
  await functions.scoreRollout({ key });
  const recorded = (await group()).rollouts["0"];
  expect(recorded).toEqual({ excluded: expect.stringMatching(/^infrastructure: x+ … .* … x+ at the end$/) });
  expect(Buffer.byteLength(JSON.stringify(recorded))).toBeLessThan(1100);
});

test.each<[string, () => Promise<() => void>]>([
  [
    "refused write",
    async () => {
      const { insert } = store.table;
      store.table.insert = (record, item) =>
        record.pk.startsWith("VERDICT#")
          ? Promise.reject(new MgrpoError("record-damaged", "the store refused it"))
          : insert(record, item);
      return () => {
        store.table.insert = insert;
      };
    },
  ],
  [
    "damaged verdict",
    async () => {
      const verdict = objectKeys.verdict("test", sha((await store.objects.get(key)) ?? ""), "paid");
      await store.objects.commit(verdict, bytes({ score: 7 }));
      return () => void store.objects.delete([verdict]);
    },
  ],
])("a %s loses no finished rollout: the next tick after the repair scores it", async (_what, damage) => {
  const judge: Rewards = { ...rewards, judge: "paid" };
  const { functions, step, group } = await started(store, teamConfig(), judge);
  await commitOutcome(store, step);
  const repair = await damage();
  await expect(functions.scoreRollout({ key })).rejects.toMatchObject({ code: "record-damaged" });
  expect((await group()).rollouts).toEqual({});
  repair();
  await functions.tick({ run: "test" });
  await functions.idle();
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
});

test("a scheduled tick finalizes a group whose last scorer crashed before the finalization", async () => {
  const config = teamConfig();
  const { functions, step, group } = await started(store, config);
  const { update } = store.table;
  store.table.update = async (change) => {
    if (change.set?.some(([path]) => path[0] === "finalized")) throw new Error("the function died");
    return update(change);
  };
  const keys = [0, 1, 2].map((k) => playRollout(store.objects, config, step, 0, k));
  for (const each of keys) await functions.scoreRollout({ key: await each }).catch(() => {});
  expect(await group()).toMatchObject({ state: "open", rollouts: { "0": {}, "1": {}, "2": {} } });
  store.table.update = update;
  await functions.tickAll();
  expect(await group()).toMatchObject({ state: "finalized", finalized: { main: { trajectories: [0, 1, 2] } } });
});

test("once the caches are filled, a healthy rollout costs one read per object and one write", async () => {
  const { functions, step } = await started(store, teamConfig());
  await commitOutcome(store, step);
  await functions.scoreRollout({ key });
  const other = await playRollout(store.objects, teamConfig(), step, 1, 0);
  const bytes = await store.objects.get(other);
  const { invocations } = JSON.parse(new TextDecoder().decode(bytes)) as { invocations: unknown[] };
  const calls: string[] = [];
  const count = (part: object, prefix: string) => {
    for (const [name, call] of Object.entries(part)) {
      const counted = (...args: unknown[]) => {
        calls.push(`${prefix}.${name}`);
        return call(...args);
      };
      Object.assign(part, { [name]: counted });
    }
  };
  count(store.objects, "objects");
  count(store.table, "table");
  await functions.scoreRollout({ key: other });
  expect(calls).toEqual(["objects.get", ...invocations.map(() => "objects.get"), "table.update"]);
});

test("an event that a tick sent again runs no reward once the outcome has a score", async () => {
  const correct = vi.fn(rewards.correct);
  const { functions, step, group } = await started(store, teamConfig(), { ...rewards, correct });
  await commitOutcome(store, step);
  await functions.scoreRollout({ key, isRepeat: true });
  expect((await group()).rollouts["0"]).toMatchObject({ correct: 1 });
  await functions.scoreRollout({ key, isRepeat: true });
  expect(correct).toHaveBeenCalledTimes(1);
});
