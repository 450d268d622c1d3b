/** @file Each cause of a stall, from records that show it, and when a run counts as standing still. */
import { expect, test } from "vitest";
import type { AgentRecord, GroupRecord, WorkerRecord } from "../../../core/contracts/records.ts";
import { causesOf, type RunState } from "../../../core/monitoring/causes.ts";
import { describeStall, StallDetector } from "../../../core/monitoring/stall.ts";
import { config, groups, RUN, step, worker } from "../../cli/records.ts";

const NOW = 1_000_000;
const seen = (one: WorkerRecord, change: Partial<WorkerRecord> = {}): WorkerRecord => ({
  ...one,
  seenAt: NOW,
  ...change,
});
const agent = (name: string, change: Partial<AgentRecord> = {}): AgentRecord => ({
  run: RUN,
  agent: name,
  version: 0,
  trainer: "",
  fence: 0,
  takeovers: 0,
  ...change,
});
const open = { ...step, state: "open" as const };
const ready = { ...step, state: "ready" as const };
const [first] = groups;
const unscored = (change: Partial<GroupRecord>): GroupRecord[] =>
  first ? [{ ...first, state: "open", finalized: {}, rollouts: {}, ...change }] : [];
const healthy: RunState = {
  step: open,
  groups,
  agents: [agent("main"), agent("searcher")],
  workers: [seen(worker("main")), seen(worker("searcher"))],
};
const causes = (change: Partial<RunState>) => causesOf(config, { ...healthy, ...change }, NOW).map(({ what }) => what);

test.each<[string, Partial<RunState>, string[]]>([
  ["nothing", {}, []],
  ["no step", { step: undefined }, ["the first step is not planned"]],
  ["no worker", { workers: [seen(worker("main"))] }, ["no worker of 'searcher' can run rollouts"]],
  [
    "a dead worker",
    { workers: [seen(worker("main")), worker("searcher", "dead")] },
    ["no worker of 'searcher' can run rollouts; searcher-1 is dead"],
  ],
  [
    "a silent worker",
    { workers: [seen(worker("main"), { seenAt: NOW - 8000 }), seen(worker("searcher"))] },
    ["main-1 has sent no heartbeat for 8 s"],
  ],
  [
    "a rollout in progress, one that waits for its score",
    {
      groups: unscored({ claims: { "0": "main-1", "1": "main-1" } }),
      workers: [seen(worker("main"), { inFlight: ["0/0/1"] }), seen(worker("searcher"))],
    },
    ["main-1 runs 1 rollout", "1 rollout is claimed, not running and not scored"],
  ],
  ["rollouts that nobody runs", { groups: unscored({}) }, ["2 rollouts are run by nobody"]],
  ["no trainer", { step: ready }, ["nobody trains 'main' yet", "nobody trains 'searcher' yet"]],
  [
    "a trainer at work, and one that was lost",
    {
      step: ready,
      agents: [agent("main", { trainer: "main-1" }), agent("searcher", { trainer: "gone-1", takeovers: 1 })],
    },
    ["main-1 trains 'main'", "the trainer of 'searcher', gone-1, is gone, after 1 of at most 3 takeovers"],
  ],
])("%s", (_, change, expected) => expect(causes(change)).toEqual(expected));

test("a heartbeat that the clock has not recorded yet is no silence", () => {
  const moved = seen(worker("main"), { seenAt: NOW - 8000, counter: 9 });
  expect(causes({ workers: [moved, seen(worker("searcher"))] })).toEqual([]);
});

test("a run stands still a minute after its last progress, or three of its steps after", () => {
  const idle = { ...healthy, groups: unscored({}) };
  const detector = new StallDetector(config);
  const look = (state: RunState, seconds: number, stepSeconds: number | null = null) =>
    detector.look(state, NOW + seconds * 1000, stepSeconds);
  expect(look(idle, 0)).toBeUndefined();
  expect(look(idle, 59)).toBeUndefined();
  expect(look(idle, 61)?.seconds).toBe(61);
  expect(look(idle, 150, 100)).toBeUndefined();
  expect(look(healthy, 200)).toBeUndefined();
  expect(look(healthy, 259)).toBeUndefined();
});

test("a process at work is given ten minutes", () => {
  const workers = [seen(worker("main"), { inFlight: ["0/0/0", "0/0/1"] }), seen(worker("searcher"))];
  const busy = { ...healthy, workers, groups: unscored({ claims: { "0": "main-1", "1": "main-1" } }) };
  const detector = new StallDetector(config);
  const look = (seconds: number) => {
    const alive = workers.map((one) => ({ ...one, seenAt: NOW + seconds * 1000 }));
    return detector.look({ ...busy, workers: alive }, NOW + seconds * 1000, null);
  };
  expect(look(0)).toBeUndefined();
  expect(look(500)).toBeUndefined();
  const stall = look(601);
  expect(stall && describeStall(stall)).toBe(
    "nothing has changed for 601 s: main-1 runs 2 rollouts (ends when they end, or limits.rolloutSeconds (120 s) ends them)",
  );
});
