/** @file metrics.jsonl and what trackers get from it: no line is lost, and a failure repeats only the lines of one send. */
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MetricsFile } from "../../cli/local/metrics-file.ts";
import { Tracking } from "../../cli/local/tracking.ts";
import { MGRPO } from "../../cli/terminal/name.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { MetricLine } from "../../core/monitoring/metrics.ts";
import { summarizeStep } from "../../core/monitoring/step-summary.ts";
import type { Tracker } from "../../core/tracker.ts";
import { config, groups, manifests, step } from "./records.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "mgrpo-tracking-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const summary = (n: number) => ({
  ...summarizeStep(config, step, groups, new Map(manifests.map((one) => [one.agent, one])), 1),
  step: n,
});
const interval = { low: 0, high: 1 };
const evaluation = {
  team: 0,
  suite: "held-out",
  temperature: 1,
  closedBook: false,
  n: 2,
  correct: 1,
  runs: [],
  interval,
};
const stepsIn = (lines: readonly MetricLine[]) => lines.map((line) => line.step);

/** Fails the first `failures` times, and keeps what it gets. */
function fakeTracker(failures = 0) {
  const got: number[] = [];
  const ends: string[] = [];
  let left = failures;
  const tracker: Tracker = {
    name: "fake",
    async send(lines) {
      if (left-- > 0)
        throw new MgrpoError("tracker-unavailable", "the tracker is\u009b away\u202e", { retryable: true });
      got.push(...stepsIn(lines));
    },
    async finish(status) {
      ends.push(status);
    },
  };
  return { tracker, got, ends };
}

const positions = () => join(folder, "trackers.json");
const tracking = (tracker: Tracker, lines: readonly MetricLine[], messages: string[] = []) =>
  new Tracking({
    trackers: [tracker],
    lines,
    positions: positions(),
    warn: (reason, isRetried) => messages.push(isRetried ? `${reason}, retried` : reason),
  });

test("a line is written once across all sessions, and one that a kill truncated is written again", () => {
  const path = join(folder, "metrics.jsonl");
  const first = new MetricsFile(path, () => 5);
  first.addEvaluation(evaluation);
  first.addStep(summary(0));
  first.addStep(summary(0));
  expect(stepsIn(first.lines)).toEqual([0, 1]);
  appendFileSync(path, '{"step":2,"ti');
  const second = new MetricsFile(path, () => 6);
  for (const n of [0, 1]) second.addStep(summary(n));
  second.addEvaluation(evaluation);
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  expect(lines.map((line) => JSON.parse(line)).map(({ step: at, source, time }) => [at, source, time])).toEqual([
    [0, "eval/held-out", 5],
    [1, "step", 5],
    [2, "step", 6],
  ]);
});

test("the errors for a damaged line of the metrics and for damaged positions say what to do", () => {
  const path = join(folder, "metrics.jsonl");
  new MetricsFile(path).addStep(summary(0));
  appendFileSync(path, '{"step":2}\n');
  expect(() => new MetricsFile(path)).toThrow(
    /metrics\.jsonl, line 2: .*: remove this file, and repeat the command to recreate it$/,
  );
  writeFileSync(positions(), "");
  expect(() => tracking(fakeTracker().tracker, [])).toThrow(
    /trackers\.json: not JSON: remove this file, and repeat the command: the trackers then get every metric again$/,
  );
});

test("a repeated evaluation adds a line when its metrics change, in any session, and the newest line counts", () => {
  const path = join(folder, "metrics.jsonl");
  const scores = (file: MetricsFile) => file.lines.map(({ metrics }) => metrics["eval/held-out/success"]);
  const first = new MetricsFile(path);
  for (const correct of [1, 2, 2]) first.addEvaluation({ ...evaluation, correct });
  expect(scores(first)).toEqual([0.5, 1]);
  const second = new MetricsFile(path);
  for (const correct of [2, 1]) second.addEvaluation({ ...evaluation, correct });
  expect(scores(second)).toEqual([0.5, 1, 0.5]);
  expect(scores(new MetricsFile(path))).toEqual([0.5, 1, 0.5]);
});

test("a tracker gets each line once, in order, and the next session continues where the previous one ended", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  file.addStep(summary(0));
  const one = fakeTracker();
  const first = tracking(one.tracker, file.lines);
  first.wake();
  await expect.poll(() => one.got).toEqual([1]);
  file.addStep(summary(1));
  first.wake();
  expect(await first.finish(undefined)).toEqual([]);
  expect([one.got, one.ends]).toEqual([[1, 2], []]);
  file.addStep(summary(2));
  const two = fakeTracker();
  expect(await tracking(two.tracker, file.lines).finish("finished")).toEqual([]);
  expect([two.got, two.ends]).toEqual([[3], ["finished"]]);
});

test("an unreachable tracker is reported once, and gets every line when it is reachable again", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  const messages: string[] = [];
  const { tracker, got } = fakeTracker(2);
  const feed = tracking(tracker, file.lines, messages);
  for (const n of [0, 1, 2]) {
    file.addStep(summary(n));
    feed.wake();
  }
  await expect.poll(() => messages).toHaveLength(1);
  expect(messages[0]).toMatch(/^the tracker is +away +, retried$/);
  await expect.poll(() => got).toEqual([1, 2, 3]);
  expect(messages).toHaveLength(1);
  await feed.finish(undefined);
});

test("a failure repeats only the lines of one send", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  for (const n of [0, 1, 2, 3, 4]) file.addStep(summary(n));
  const { tracker, got } = fakeTracker();
  const sends: number[][] = [];
  const send: Tracker["send"] = async (lines, signal) => {
    sends.push(stepsIn(lines));
    if (sends.length === 2) throw new MgrpoError("tracker-unavailable", "away", { retryable: true });
    await tracker.send(lines, signal);
  };
  const feed = () => tracking({ ...tracker, linesAtOnce: 2, send }, file.lines).finish(undefined);
  expect(await feed()).toEqual(["fake"]);
  expect(await feed()).toEqual([]);
  expect(sends).toEqual([[1, 2], [3, 4], [3, 4], [5]]);
  expect(got).toEqual([1, 2, 3, 4, 5]);
});

test("at the end of a run, trackers that lack lines are named, no retry is promised, and the lines are kept", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  file.addStep(summary(0));
  const messages: string[] = [];
  expect(await tracking(fakeTracker(9).tracker, file.lines, messages).finish("finished")).toEqual(["fake"]);
  expect(messages).toEqual([expect.stringMatching(/^the tracker is +away +$/)]);
  const later = fakeTracker();
  expect(await tracking(later.tracker, file.lines).finish("finished")).toEqual([]);
  expect(later.got).toEqual([1]);
});

test("a position that could not be saved is saved at the run's end; if it still cannot, the tracker is named, and not told of the end", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  file.addStep(summary(0));
  const { tracker, got, ends } = fakeTracker();
  const messages: string[] = [];
  const feed = tracking(tracker, file.lines, messages);
  mkdirSync(positions());
  feed.wake();
  await expect.poll(() => messages).toHaveLength(1);
  expect(messages[0]).toMatch(/this path cannot be used \(.*trackers\.json.*, retried$/);
  expect(await feed.finish("finished")).toEqual(["fake"]);
  expect([got, ends]).toEqual([[1], []]);
  rmdirSync(positions());
  expect(await feed.finish("finished")).toEqual([]);
  expect(await tracking(tracker, file.lines).finish(undefined)).toEqual([]);
  expect([got, ends]).toEqual([[1], ["finished"]]);
});

test("a tracker that refuses the run's end is named, even if it failed before", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  file.addStep(summary(0));
  const { tracker, got } = fakeTracker(1);
  const messages: string[] = [];
  const refused = async () => {
    throw new MgrpoError("tracker-unavailable", "HTTP 500", { retryable: true });
  };
  const feed = tracking({ ...tracker, finish: refused }, file.lines, messages);
  feed.wake();
  await expect.poll(() => messages).toHaveLength(1);
  expect(await feed.finish("finished")).toEqual(["fake"]);
  expect(got).toEqual([1]);
  expect(await tracking({ ...tracker, finish: refused }, file.lines).finish(undefined)).toEqual([]);
});

test("a hint in a tracker's failure begins with the command that starts this program", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  file.addStep(summary(0));
  const messages: string[] = [];
  const send = async () => {
    throw new MgrpoError("tracker-unavailable", "no time: `mgrpo track look` sends the rest", { retryable: true });
  };
  await tracking({ ...fakeTracker().tracker, send }, file.lines, messages).finish("finished");
  expect(messages).toEqual([`no time: \`${MGRPO} track look\` sends the rest`]);
});

test("a tracker that starts over gets every line again, and so does one whose metrics file was deleted", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  file.addStep(summary(0));
  writeFileSync(positions(), JSON.stringify({ fake: 1 }));
  const { tracker, got } = fakeTracker();
  await tracking({ ...tracker, startsOver: true }, file.lines).finish(undefined);
  expect(got).toEqual([1]);
  writeFileSync(positions(), JSON.stringify({ fake: 7 }));
  await tracking(tracker, file.lines).finish(undefined);
  expect(got).toEqual([1, 1]);
});

test("a tracker at another address gets every line, and the first one no line twice", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"));
  file.addStep(summary(0));
  const [here, there] = [fakeTracker(), fakeTracker()];
  for (let session = 0; session < 2; session++) {
    await tracking({ ...here.tracker, destination: "http://here/?key=word" }, file.lines).finish(undefined);
    await tracking({ ...there.tracker, destination: "http://there" }, file.lines).finish(undefined);
  }
  expect([here.got, there.got]).toEqual([[1], [1]]);
  expect(readFileSync(positions(), "utf8")).not.toContain("word");
});

test("a run ends at its newest line, however often and however late it is sent", async () => {
  const file = new MetricsFile(join(folder, "metrics.jsonl"), () => 5);
  file.addStep(summary(0));
  const ends: number[] = [];
  const finish: Tracker["finish"] = async (_status, endedAt) => void ends.push(endedAt);
  for (let session = 0; session < 2; session++)
    await tracking({ ...fakeTracker().tracker, finish }, file.lines).finish("finished");
  expect(ends).toEqual([5, 5]);
});
