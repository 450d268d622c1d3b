/** @file How functions are called, by events, in batches, directly and by the local cloud: what is logged, rethrown or delivered again after a failure. */
import { expect, test } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import { composeFromEnvironment } from "../../functions/compose.ts";
import type { Functions } from "../../functions/functions.ts";
import { cloudHandlers, objectKeyOf, wrap } from "../../functions/handler.ts";

const created = (key: string) => ({
  ...{ "detail-type": "Object Created" as const, source: "aws.s3" as const },
  detail: { bucket: { name: "b" }, object: { key } },
});

const outage = new MgrpoError("store-unreachable", "no answer", { retryable: true });

function recorder() {
  const lines: string[] = [];
  return { lines, log: (line: string) => void lines.push(line) };
}

test("the object key is read from an event or from a direct call; an event without one is malformed", () => {
  expect(objectKeyOf(created("runs/a%20/x.json"))).toEqual({ key: "runs/a%20/x.json" });
  expect(objectKeyOf({ ...created("a"), source: "mgrpo" })).toEqual({ key: "a", isRepeat: true });
  expect(objectKeyOf({ key: "k" })).toEqual({ key: "k" });
  expect(() => objectKeyOf({ detail: {} })).toThrow(/^event: /);
});

test("a batch: only messages with retryable failures are delivered again", async () => {
  const { lines, log } = recorder();
  const handler = wrap(
    "score-rollout",
    async (event) => {
      if (objectKeyOf(event).key === "outage") throw outage;
    },
    log,
  );
  const message = (messageId: string, body: unknown) => ({ messageId, body: JSON.stringify(body) });
  const Records = [
    message("1", created("fine")),
    message("2", created("outage")),
    message("3", { odd: true }),
    { messageId: "4", body: "{not json" },
  ];
  expect(await handler({ Records })).toEqual({ batchItemFailures: [{ itemIdentifier: "2" }] });
  expect(
    lines
      .map((line) => JSON.parse(line))
      .map(({ code, retryable }) => `${code} ${retryable}`)
      .sort(),
  ).toEqual(["event-malformed false", "event-malformed false", "store-unreachable true"]);
  expect(lines.some((line) => line.includes("message 4: not JSON"))).toBe(true);
  expect(lines.every((line) => !line.includes("\n"))).toBe(true);
});

test("called directly or by the schedule: every failure is rethrown, so that the caller or an alarm sees it", async () => {
  const { lines, log } = recorder();
  const failing = (error: Error) => wrap("tick", async () => Promise.reject(error), log);
  const damaged = new MgrpoError("record-damaged", "RUN 'a': step: expected number");
  for (const error of [outage, damaged]) await expect(failing(error)(created("x"))).rejects.toBe(error);
  const strict = wrap("tick", async (event) => objectKeyOf(event), log);
  await expect(strict(undefined)).rejects.toMatchObject({ code: "event-malformed" });
  expect(lines.map((line) => JSON.parse(line).code)).toEqual([
    "store-unreachable",
    "record-damaged",
    "event-malformed",
  ]);
});

test("the local cloud routes by key and ignores other keys; a failure that cannot be retried is only logged, a retryable one rejects", async () => {
  const { lines, log } = recorder();
  const calls: string[] = [];
  const note = (name: string) => async (request?: object) =>
    void calls.push(`${name} ${JSON.stringify(request ?? {})}`);
  const functions: Functions = {
    ...{ startRun: note("start"), tick: note("tick"), manifestCreated: note("manifest") },
    ...{ scoreRollout: note("score"), enqueueEvaluation: note("enqueue") },
    recordEvaluation: async () => Promise.reject(new MgrpoError("not-found", "no such job")),
    tickAll: async () => Promise.reject(outage),
    reconcile: async () => ({
      metrics: { unserved: 0, runs: [] },
      changes: [],
      failures: [],
    }),
    startSchedule: note("schedule"),
    idle: note("idle"),
    stop: note("stop"),
  };
  const cloud = cloudHandlers(functions, log);
  for (const key of [
    "runs/a/outcomes/000001/0/3.json",
    "runs/a/manifests/main/000002.json",
    "runs/a/teams/000002.json",
    "runs/a/parts/abc",
    "runs/a/evaluations/j-1/result.json",
  ]) {
    await cloud.objectCreated(created(key));
  }
  expect(calls).toEqual([
    'score {"key":"runs/a/outcomes/000001/0/3.json"}',
    'manifest {"key":"runs/a/manifests/main/000002.json"}',
    'enqueue {"key":"runs/a/teams/000002.json"}',
  ]);
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { function: "record-evaluation", message: "no such job" },
  ]);
  await expect(cloud.tick()).rejects.toBe(outage);
});

test("the local cloud's tick logs every failure that the tick before did not have, and rejects with the first retryable one that is not a judge's", async () => {
  const { lines, log } = recorder();
  const failures = [
    new MgrpoError("judge-failed", "503", { retryable: true }),
    new MgrpoError("record-damaged", "RUN 'a': step: expected number"),
    outage,
  ];
  const functions: Partial<Functions> = {
    async tickAll(onFailure) {
      for (const failure of failures) onFailure?.(failure);
    },
  };
  const cloud = cloudHandlers(functions as Functions, log);
  for (let tick = 0; tick < 3; tick++) await expect(cloud.tick()).rejects.toBe(outage);
  expect(lines.map((line) => JSON.parse(line)).map((entry) => `${entry.function} ${entry.code}`)).toEqual([
    "score-rollout judge-failed",
    "tick record-damaged",
    "tick store-unreachable",
  ]);
  const recurring = failures.splice(0);
  await cloud.tick();
  failures.push(...recurring);
  await expect(cloud.tick()).rejects.toBe(outage);
  expect(lines).toHaveLength(2 * recurring.length);
});

test("the log line of a bug says where it is, that of an expected failure does not", async () => {
  const { lines, log } = recorder();
  for (const error of [new TypeError("x is undefined"), outage, "thrown text"])
    await expect(wrap("tick", () => Promise.reject(error), log)({})).rejects.toBe(error);
  const [bug, expected, text] = lines.map((line) => JSON.parse(line));
  expect(bug).toMatchObject({
    ...{ code: "fault", message: "x is undefined" },
    stack: expect.stringContaining("handler.test.ts"),
  });
  expect(expected).not.toHaveProperty("stack");
  expect(text).toMatchObject({ code: "fault", message: "thrown text" });
});

test("the error for a missing environment variable names it", () => {
  expect(() => composeFromEnvironment({ MGRPO_TABLE: "t" })).toThrow(/^environment: MGRPO_BUCKET/);
});
