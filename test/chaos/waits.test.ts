/** @file The law on waits, on histories made by hand. Times are in seconds since the trial began. */
import { describe, expect, test } from "vitest";
import type { Entry, LeaseChange, Strike, Trial } from "./history.ts";
import { overdueWaits } from "./waits.ts";

const limits = { lease: 2, tick: 1, rollout: 30, invocation: 20, judge: 5, tool: 2, store: 30, slack: 10 };

const run = { run: "a", records: {}, judgesMicroUsd: 0, toolsMicroUsd: 0, agentsMicroUsd: 0, foreignTrajectories: [] };

function trialOf(history: readonly Entry[], more: Partial<Trial> = {}, status = "running"): Trial {
  const runs = [{ ...run, status }];
  return {
    endedInTime: true,
    seconds: 100,
    runs,
    history,
    log: [],
    strikes: [],
    limits,
    starts: {},
    ends: [],
    ...more,
  };
}

function entry(from: number, to: number, more: Partial<Entry> = {}): Entry {
  const [sentAt, answeredAt] = [from * 1000, to * 1000];
  const request = { process: "main-a", channel: "dynamo", method: "POST", path: "/", fault: undefined } as const;
  return { sentAt, answeredAt, status: 200, facts: [], ...request, ...more };
}

const struck = (at: number, signal: Strike["signal"], seconds = 0): Strike => ({
  process: "main-a",
  signal,
  seconds,
  at: at * 1000,
});

describe("a request that hangs", () => {
  const hung = (process: string, path: string, seconds: number, channel: Entry["channel"] = "world") =>
    entry(10, 10 + seconds, { process, path, channel, fault: "hang", status: 0 });

  test.each([
    ["functions", "/v1/chat/completions", limits.judge, "world"],
    ["searcher-a", "/page?word=amber", limits.tool, "world"],
    ["main-a", "/think", limits.rollout, "world"],
    ["eval-a", "/think", limits.rollout, "world"],
    ["searcher-a", "/think", limits.invocation, "world"],
    ["searcher-b", "/think", limits.rollout, "world"],
    ["app", "/attempts", limits.rollout, "app"],
    ["eval-b", "/0a1b2c/v1/chat/completions", limits.rollout, "gateway"],
    ["searcher-b", "/a3ccd3/sessions/x/turns", limits.rollout, "calls"],
    ["functions", "/", limits.store, "dynamo"],
    ["main-a", "/mgrpo/runs/a/teams/000001.json", limits.store, "s3"],
  ] as const)("of %s, to %s, ends within %d s and the slack", (process, path, seconds, channel) => {
    const within = hung(process, path, seconds + limits.slack - 0.1, channel);
    const beyond = hung(process, path, seconds + limits.slack + 0.1, channel);
    expect(overdueWaits(trialOf([within]))).toEqual([]);
    expect(overdueWaits(trialOf([beyond]))).toEqual([expect.stringContaining(`${process} waited`)]);
  });

  test("may take longer by the time that processes were stopped or restarting", () => {
    const request = hung("functions", "/v1/chat/completions", limits.judge + limits.slack + 6);
    expect(overdueWaits(trialOf([request]))).toHaveLength(1);
    expect(overdueWaits(trialOf([request], { strikes: [struck(12, "stop", 7)] }))).toEqual([]);
    // This stop was over before the request.
    expect(overdueWaits(trialOf([request], { strikes: [struck(2, "stop", 7)] }))).toHaveLength(1);
    // Each kill excuses five seconds.
    expect(overdueWaits(trialOf([request], { strikes: [struck(12, "kill")] }))).toHaveLength(1);
    expect(overdueWaits(trialOf([request], { strikes: [struck(12, "kill"), struck(13, "kill")] }))).toEqual([]);
  });

  test("may take longer by the time that one process had no processor", () => {
    const request = hung("functions", "/v1/chat/completions", limits.judge + limits.slack + 6);
    const starved = (process: string, from: number, seconds: number) => ({
      ...{ process, from: from * 1000, to: (from + 10) * 1000, seconds },
    });
    expect(overdueWaits(trialOf([request], { starvation: [starved("cloud", 15, 7)] }))).toEqual([]);
    // The times of two processes do not add up, and this period was over before the request.
    const others = [starved("cloud", 15, 5), starved("main-a", 15, 5), starved("cloud", 0, 7)];
    expect(overdueWaits(trialOf([request], { starvation: others }))).toHaveLength(1);
  });

  test("to a model is timed from the opening of its step at the earliest", () => {
    const request = hung("main-a", "/think", 60);
    expect(overdueWaits(trialOf([request]))).toHaveLength(1);
    const advance = (name: string) => entry(39, 40, { process: "functions", facts: [`advance RUN#${name} RUN 1`] });
    expect(overdueWaits(trialOf([request, advance("a")]))).toEqual([]);
    expect(overdueWaits(trialOf([request, advance("b")]))).toHaveLength(1);
  });
});

test.each(["app", "gateway"] as const)("a request to the %s that is answered must end in time too", (channel) => {
  const answered = (seconds: number) => entry(10, 10 + seconds, { process: "main-b", path: "/v1", channel });
  expect(overdueWaits(trialOf([answered(limits.rollout + limits.slack - 0.1)]))).toEqual([]);
  expect(overdueWaits(trialOf([answered(limits.rollout + limits.slack + 0.1)]))).toHaveLength(1);
});

/** A write at this time that changes a lease. */
const wrote = (at: number, lease: LeaseChange, facts: readonly string[] = []) => entry(at - 0.01, at, { lease, facts });

describe("a worker", () => {
  const name = "RUN#a WORKER#main-1";
  const beat = (at: number) => wrote(at, { name, act: "grant" });
  const dead = (at: number) => wrote(at, { name, act: "end" });
  // Twice the lease, three ticks, and the slack.
  const MAX_SECONDS = 2 * 2 + 3 * 1 + 10;

  test("that sends heartbeats and leaves is never overdue", () => {
    const beats = Array.from({ length: 40 }, (_, i) => beat(2 * i));
    expect(overdueWaits(trialOf([...beats, dead(80)]))).toEqual([]);
  });

  test("that falls silent is declared dead within two leases, three ticks and the slack", () => {
    expect(overdueWaits(trialOf([beat(1), beat(2), dead(2 + MAX_SECONDS - 0.1)]))).toEqual([]);
    const found = overdueWaits(trialOf([beat(1), beat(2), dead(2 + MAX_SECONDS + 0.1)]));
    expect(found).toEqual([`${name}: held from 2.0 s, overdue by 10.1 s, instead of 10.0 s`]);
  });

  test("that is never declared dead is overdue, unless its run or the trial ends before the limit", () => {
    expect(overdueWaits(trialOf([beat(1)]))).toHaveLength(1);
    expect(overdueWaits(trialOf([beat(1)], { seconds: 1 + MAX_SECONDS - 0.1 }))).toEqual([]);
    // A finished run ends at its last fact. A worker's registration and the facts of another run do not count.
    const fact = (at: number, what: string) => entry(at, at, { facts: [what] });
    const registered = "insert RUN#a WORKER#main-2";
    const late = [beat(1), fact(1 + MAX_SECONDS + 1, "commit runs/a/teams/000003.json")];
    const early = [
      beat(1),
      fact(2, "step RUN#a STEP#000002 closed"),
      fact(90, registered),
      fact(95, "insert RUN#ab RUN"),
    ];
    expect(overdueWaits(trialOf(late, {}, "finished"))).toHaveLength(1);
    expect(overdueWaits(trialOf(early, {}, "finished"))).toEqual([]);
  });

  test("may be silent for longer while a process is stopped or waits for a silent store", () => {
    const history = [beat(2), dead(2 + MAX_SECONDS + 4)];
    const silence = entry(3, 8, { channel: "s3", fault: "hang", status: 0 });
    expect(overdueWaits(trialOf(history))).toHaveLength(1);
    expect(overdueWaits(trialOf(history, { strikes: [struck(5, "stop", 4.5)] }))).toEqual([]);
    expect(overdueWaits(trialOf([...history, silence]))).toEqual([]);
  });

  test("whose heartbeat is repeated after its death stays dead", () => {
    expect(overdueWaits(trialOf([beat(2), dead(3), beat(4)]))).toEqual([]);
  });
});

describe("the claim on a verdict", () => {
  const name = "VERDICT#a#0f JUDGE#judge";
  const claim = (at: number, seconds: number) => wrote(at, { name, act: "grant", seconds });

  test("is overdue if it expires and, within the slack, neither is taken over nor ends with the verdict", () => {
    const end = (at: number) => wrote(at, { name, act: "end" });
    expect(overdueWaits(trialOf([claim(1, 20), end(30)]))).toEqual([]);
    expect(overdueWaits(trialOf([claim(1, 20), claim(30, 20), end(55)]))).toEqual([]);
    expect(overdueWaits(trialOf([claim(1, 20), claim(32, 20), end(40)]))).toHaveLength(1);
    expect(overdueWaits(trialOf([claim(1, 20)]))).toEqual([
      `${name}: held from 1.0 s, overdue by 79.0 s, instead of 10.0 s`,
    ]);
  });

  test("that is released is not overdue", () => {
    expect(overdueWaits(trialOf([claim(1, 20), wrote(2, { name, act: "release" })]))).toEqual([]);
  });
});
