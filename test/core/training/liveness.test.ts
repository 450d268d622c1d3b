/** @file Liveness as tick sees it, computed by hand for a lease of 10 s, and what a crash means for rollouts in flight. */
import { expect, test } from "vitest";
import type { GroupRecord, WorkerRecord } from "../../../core/contracts/records.ts";
import { abandonRollouts } from "../../../core/training/abandon-rollouts.ts";
import { haltLostTrainers, observeWorkers, rolloutAlone } from "../../../core/training/liveness.ts";
import {
  countCrash,
  endRun,
  markDead,
  recordSeenCounter,
  resetTakeovers,
  suspectDeath,
} from "../../../core/training/writes.ts";
import { teamConfig } from "../../fakes/scripted-team.ts";

const config = teamConfig();

const workerOf = (part: Partial<WorkerRecord>): WorkerRecord => ({
  ...{ run: "test", worker: "w1", agent: "main", roles: ["rollout", "train"], url: "", state: "alive", release: "1" },
  ...{ counter: 5, seenCounter: 5, seenAt: 0, inFlight: [] },
  ...part,
});

const groupOf = (part: Partial<GroupRecord> = {}): GroupRecord => ({
  ...{ run: "test", step: 4, group: 1, questionId: "q1", rolloutsPerQuestion: 3, state: "open", finalized: {} },
  ...{ claims: {}, crashes: {}, rollouts: {} },
  ...part,
});

test("a moving counter is recorded at most twice per lease", () => {
  const moved = workerOf({ counter: 6, seenAt: 1000 });
  for (const early of [1000, 5999]) expect(observeWorkers(config, [moved], [], early)).toEqual([]);
  expect(observeWorkers(config, [moved], [], 6000)).toEqual([
    { kind: "update", change: recordSeenCounter(moved, 6000) },
  ]);
});

test("a worker is marked dead if its counter does not move for a lease, and then for another half lease after a tick notices", () => {
  const still = workerOf({ seenAt: 1000 });
  expect(observeWorkers(config, [still], [], 11_000)).toEqual([]);
  expect(observeWorkers(config, [still], [], 11_001)).toEqual([
    { kind: "update", change: suspectDeath(still, 11_001) },
  ]);
  const suspected = workerOf({ seenAt: 1000, suspectedAt: 11_001 });
  for (const early of [11_001, 16_001]) expect(observeWorkers(config, [suspected], [], early)).toEqual([]);
  expect(observeWorkers(config, [suspected], [], 16_002)).toEqual([{ kind: "update", change: markDead(suspected) }]);
  expect(observeWorkers(config, [workerOf({ state: "dead" })], [], 99_999)).toEqual([]);
  // What a draining worker had in flight did not crash it.
  const draining = workerOf({ state: "draining", inFlight: ["4/1/2"] });
  expect(markDead(draining).set).toEqual([
    [["state"], "dead"],
    [["inFlight"], []],
  ]);
});

test("a tick records when it saw the last heartbeat of a worker that others marked dead", () => {
  const dead = workerOf({ state: "dead", counter: 6 });
  expect(observeWorkers(config, [dead], [], 6000)).toEqual([{ kind: "update", change: recordSeenCounter(dead, 6000) }]);
  expect(observeWorkers(config, [{ ...dead, seenCounter: 6, seenAt: 6000 }], [], 99_999)).toEqual([]);
});

test("after a store outage longer than a lease, no worker that sends a heartbeat is marked dead", () => {
  const before = workerOf({ seenAt: 1000 });
  expect(observeWorkers(config, [before], [], 60_000)).toEqual([
    { kind: "update", change: suspectDeath(before, 60_000) },
  ]);
  const after = workerOf({ seenAt: 1000, suspectedAt: 60_000, counter: 6 });
  expect(observeWorkers(config, [after], [], 66_000)).toEqual([
    { kind: "update", change: recordSeenCounter(after, 66_000) },
  ]);
  const silentLater = workerOf({ seenAt: 66_000, suspectedAt: 60_000, counter: 6, seenCounter: 6 });
  expect(observeWorkers(config, [silentLater], [], 76_001)).toEqual([
    { kind: "update", change: suspectDeath(silentLater, 76_001) },
  ]);
});

test("after the store's clock was set back by an hour, a worker that has died is marked dead as soon as any other", () => {
  const [hour, now] = [3_600_000, 1000];
  const ahead = workerOf({ counter: 6, seenAt: now + hour, suspectedAt: now + hour + 11_000 });
  expect(observeWorkers(config, [ahead], [], now)).toEqual([{ kind: "update", change: recordSeenCounter(ahead, now) }]);
  const seen = workerOf({ counter: 6, seenCounter: 6, seenAt: now, suspectedAt: now + hour + 11_000 });
  expect(observeWorkers(config, [seen], [], 11_001)).toEqual([{ kind: "update", change: suspectDeath(seen, 11_001) }]);
  const suspected = { ...seen, suspectedAt: 11_001 };
  expect(observeWorkers(config, [suspected], [], 16_002)).toEqual([{ kind: "update", change: markDead(suspected) }]);
});

test("a crash counts only against an undecided rollout that ran alone on a worker that was not draining", () => {
  const then = (worker: Partial<WorkerRecord>, group = groupOf()) => {
    const [command] = observeWorkers(config, [workerOf({ suspectedAt: 14_000, ...worker })], [group], 20_000);
    return command?.kind === "update" ? command.then : "no change";
  };
  const group = groupOf({ crashes: { w0: 2 } });
  expect(then({ inFlight: ["4/1/2"] }, group)).toEqual([{ kind: "update", change: countCrash(group, 2, "w1") }]);
  expect(then({ inFlight: ["4/1/2", "4/1/0"] })).toBeUndefined();
  expect(then({ inFlight: ["4/1/2"], state: "draining" })).toBeUndefined();
  expect(then({ inFlight: ["3/1/2"] })).toBeUndefined();
  expect(then({ inFlight: ["4/0/2"] })).toBeUndefined();
  expect(then({ inFlight: ["4/1/2"] }, groupOf({ state: "finalized" }))).toBeUndefined();
  expect(then({ inFlight: ["4/1/2"] }, groupOf({ rollouts: { "2": { excluded: "x" } } }))).toBeUndefined();
});

test("a training rollout in flight is named by step, group and rollout, each of any number of digits; no other name counts as one", () => {
  const alone = (name: string) => rolloutAlone(workerOf({ inFlight: [name] }));
  expect(alone("123/45/67")).toEqual({ step: 123, group: 45, rollout: 67 });
  for (const other of ["123/45", "123/45/67/8", "123/45/67.json", "eval:123/45/67"])
    expect(alone(other)).toBeUndefined();
});

test("a crash that the observer did not count is counted by the next tick, once", () => {
  const dead = workerOf({ state: "dead", inFlight: ["4/1/2"] });
  const counted = { kind: "update", change: countCrash(groupOf(), 2, "w1") };
  expect(observeWorkers(config, [dead], [groupOf()], 20_000)).toEqual([counted]);
  expect(observeWorkers(config, [dead], [groupOf({ crashes: { w1: 2 } })], 20_000)).toEqual([]);
});

test("a rollout is abandoned after three crashes, or limits.attempts if lower: an outcome with status `failed` is committed at its key, then scored", () => {
  const crashed = groupOf({ crashes: { a: 0, b: 0, c: 2, d: 2, e: 2 }, rollouts: { "1": { excluded: "x" } } });
  const key = "runs/test/outcomes/000004/1/2.json";
  expect(abandonRollouts(config, [crashed])).toMatchObject([
    { kind: "commit", key, record: { status: "failed", questionId: "q1", reason: expect.stringContaining("3 times") } },
    { kind: "score", key },
  ]);
  expect(abandonRollouts(teamConfig({ limits: { attempts: 2 } }), [crashed])).toHaveLength(4);
  const [once] = abandonRollouts(teamConfig({ limits: { attempts: 1 } }), [groupOf({ crashes: { a: 0 } })]);
  expect(once).toMatchObject({ record: { reason: "infrastructure: its worker crashed once while it ran alone" } });
  expect(abandonRollouts(config, [{ ...crashed, state: "finalized" }])).toEqual([]);
});

test("three losses of an agent's trainer halt the run; the reason names each such agent, and their counts are reset", () => {
  const agentOf = (agent: string, takeovers: number) => ({
    ...{ run: "test", agent, version: 3, trainer: "w2", fence: 9, takeovers },
  });
  const [main, coder, searcher] = [agentOf("main", 3), agentOf("coder", 2), agentOf("searcher", 3)];
  expect(haltLostTrainers("test", [coder])).toEqual([]);
  const reason =
    "lost 3 times without a new version: the trainer of main, the trainer of searcher; read the workers' logs, then resume";
  expect(haltLostTrainers("test", [main, coder, searcher])).toEqual([
    { kind: "update", change: endRun("test", { code: "trainer-lost", reason }) },
    { kind: "update", change: resetTakeovers(main) },
    { kind: "update", change: resetTakeovers(searcher) },
  ]);
});
