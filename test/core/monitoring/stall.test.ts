/** @file Each cause of a stall, from records that show it, and when a run counts as stalled. */
import { expect, test } from "vitest";
import { RunConfig } from "../../../core/contracts/config.ts";
import type { AgentRecord, GroupRecord, WorkerRecord } from "../../../core/contracts/records.ts";
import { causesOf } from "../../../core/monitoring/causes.ts";
import type { RunState } from "../../../core/monitoring/run-state.ts";
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
    "a rollout in progress, and one that waits for its score",
    {
      groups: unscored({ claims: { "0": "main-1", "1": "main-1" } }),
      workers: [seen(worker("main"), { running: 1 }), seen(worker("searcher"))],
    },
    [
      "main-1 runs 1 rollout",
      "1 rollout is claimed, not running and not scored: the recipe's reward function has not answered",
    ],
  ],
  [
    "a rollout in progress, and one that waits to run alone after it",
    {
      groups: unscored({ claims: { "0": "main-1", "1": "main-1" } }),
      workers: [seen(worker("main"), { running: 1, quarantined: 1 }), seen(worker("searcher"))],
    },
    [
      "main-1 runs 1 rollout",
      "1 rollout of main-1 waits to run alone, since a worker or an engine thread died during its attempts",
    ],
  ],
  ["unclaimed rollouts", { groups: unscored({}) }, ["2 rollouts are not claimed by any worker"]],
  [
    "rollouts of a dead worker",
    {
      groups: unscored({ claims: { "0": "searcher-2", "1": "searcher-2" } }),
      workers: [
        seen(worker("main")),
        seen(worker("searcher")),
        { ...worker("searcher", "dead"), worker: "searcher-2", inFlight: ["0/0/0", "0/0/1"] },
      ],
    },
    ["2 rollouts are claimed by searcher-2, which is dead: they may only run alone, or have run and wait for a score"],
  ],
  [
    "a tool budget that is exceeded",
    { tools: { run: RUN, calls: 11, microUsd: 0, blocked: 0, maxCalls: 10, maxUsd: null } },
    [
      "its tools' budget is spent: 10 calls to backends; allow more with --budget-tool-calls <calls in all>, or in a new run with a higher tools.budget.run.calls",
    ],
  ],
  [
    "a tool budget that is used up exactly",
    { tools: { run: RUN, calls: 10, microUsd: 0, blocked: 0, maxCalls: 10, maxUsd: null } },
    [],
  ],
  [
    "a disk that is nearly full",
    { disk: { path: "/runs/tiny", freeBytes: 2 ** 29, totalBytes: 2 ** 36 } },
    ["the disk of /runs/tiny has 512 MiB left"],
  ],
  ["a small disk that is half empty", { disk: { path: "/runs/tiny", freeBytes: 2 ** 29, totalBytes: 2 ** 30 } }, []],
  [
    "a trainer that thrashes",
    { step: ready, agents: [agent("main", { trainer: "main-1", takeovers: 2 }), agent("searcher", { version: 1 })] },
    [
      "the training of 'main' moves from worker to worker without a new version; main-1 holds it now, after 2 of at most 3 takeovers",
    ],
  ],
  ["no trainer", { step: ready }, ["no worker trains 'main' yet", "no worker trains 'searcher' yet"]],
  [
    "a step that its trainer abandoned",
    { step: ready, agents: [agent("main", { takeovers: 2 }), agent("searcher", { version: 1 })] },
    ["no worker trains 'main', after 2 of at most 3 takeovers"],
  ],
  [
    "a draining trainer, which finishes the step",
    {
      step: ready,
      agents: [agent("main", { trainer: "main-1" }), agent("searcher", { version: 1 })],
      workers: [seen(worker("main", "draining")), seen(worker("searcher"))],
    },
    ["main-1 trains 'main'"],
  ],
  [
    "a draining worker in an open step",
    { workers: [seen(worker("main", "draining")), seen(worker("searcher"))] },
    ["no worker of 'main' can run rollouts; main-1 is draining"],
  ],
  [
    "a draining worker that is silent",
    {
      step: ready,
      agents: [agent("main", { trainer: "main-1" }), agent("searcher", { version: 1 })],
      workers: [seen(worker("main", "draining"), { seenAt: NOW - 8000 }), seen(worker("searcher"))],
    },
    ["main-1 has sent no heartbeat for 8 s", "main-1 trains 'main'"],
  ],
  [
    "a trainer at work, and one that was lost",
    {
      step: ready,
      agents: [agent("main", { trainer: "main-1" }), agent("searcher", { trainer: "gone-1", takeovers: 1 })],
    },
    ["main-1 trains 'main'", "the trainer of 'searcher', gone-1, is gone, after 1 of at most 3 takeovers"],
  ],
  [
    "a trainer that was lost after two takeovers",
    { step: ready, agents: [agent("main", { trainer: "gone-1", takeovers: 2 }), agent("searcher", { version: 1 })] },
    ["the trainer of 'main', gone-1, is gone, after 2 of at most 3 takeovers"],
  ],
])("causes of a stall: %s", (_, change, expected) => expect(causes(change)).toEqual(expected));

test("a slow judge is named, with the deadline of its verdicts", () => {
  const judged = RunConfig.parse({ ...config, judge: { model: "openai#gpt-5-mini" } });
  const groups = unscored({ claims: { "0": "main-1", "1": "main-1" } });
  expect(causesOf(judged, { ...healthy, groups }, NOW)).toEqual([
    {
      what: "2 rollouts are claimed, not running and not scored: the judge has not answered",
      ends: "the judge scores them, within limits.verdictSeconds (180 s) per attempt",
      likelihood: "likely",
    },
  ]);
});

test("the end of the wait for a single rollout is described in the singular", () => {
  const dead = { ...worker("searcher", "dead"), worker: "searcher-2" };
  const ends = (claims: Record<string, string>, running = 0) => {
    const workers = [seen(worker("main"), { running }), seen(worker("searcher")), dead];
    const groups = unscored({ rolloutsPerQuestion: 1, claims });
    return causesOf(config, { ...healthy, workers, groups }, NOW).map((cause) => cause.ends);
  };
  expect(ends({ "0": "main-1" }, 1)).toEqual(["it ends, or limits.rolloutSeconds (120 s) ends it"]);
  expect(ends({ "0": "searcher-2" })).toEqual([
    "a worker without other rollouts takes it over, or the recipe's reward function scores it: a judge that a dead process was asking is asked again once limits.verdictSeconds (180 s) have passed",
  ]);
  expect(ends({})).toEqual(["a worker claims it once it has room"]);
});

test("a worker is a likely cause once it has been silent for more than half its lease, and a certain one beyond its lease", () => {
  const silent = (seconds: number) => {
    const workers = [seen(worker("main"), { seenAt: NOW - seconds * 1000 }), seen(worker("searcher"))];
    return causesOf(config, { ...healthy, workers }, NOW).map(({ likelihood }) => likelihood);
  };
  expect([silent(4), silent(8), silent(12)]).toEqual([[], ["likely"], ["certain"]]);
});

test("after 90 s, training that was taken over twice counts as stalled, and training that was taken over once does not", () => {
  const stallAfter = (takeovers: number) => {
    const state = {
      ...healthy,
      step: ready,
      agents: [agent("main", { trainer: "main-1", takeovers }), agent("searcher", { version: 1 })],
    };
    const detector = new StallDetector(config);
    detector.observe(state, NOW, null);
    return detector.observe(
      { ...state, workers: state.workers.map((one) => ({ ...one, seenAt: NOW + 90_000 })) },
      NOW + 90_000,
      null,
    );
  };
  expect(stallAfter(1)).toBeUndefined();
  expect(stallAfter(2)?.causes[0]?.likelihood).toBe("likely");
});

test("a worker whose latest heartbeat no tick has recorded yet does not count as silent", () => {
  const moved = seen(worker("main"), { seenAt: NOW - 8000, counter: 9 });
  expect(causes({ workers: [moved, seen(worker("searcher"))] })).toEqual([]);
});

test("a run has stalled after a minute without progress, or after three step times if that is longer", () => {
  const idle = { ...healthy, groups: unscored({}) };
  const detector = new StallDetector(config);
  const look = (state: RunState, seconds: number, stepSeconds: number | null = null) =>
    detector.observe(state, NOW + seconds * 1000, stepSeconds);
  expect(look(idle, 0)).toBeUndefined();
  expect(look(idle, 59)).toBeUndefined();
  expect(look(idle, 61)?.seconds).toBe(61);
  expect(look(idle, 150, 100)).toBeUndefined();
  expect(look(healthy, 200)).toBeUndefined();
  expect(look(healthy, 259)).toBeUndefined();
});

test("the time for which a run was halted does not count", () => {
  const idle = { ...healthy, groups: unscored({}) };
  const detector = new StallDetector(config);
  const look = (seconds: number) => {
    const listed = { run: RUN, progress: "", progressAt: NOW + 7_200_000 };
    return detector.observe(idle, NOW + seconds * 1000, null, seconds < 7200 ? undefined : listed);
  };
  expect(look(0)).toBeUndefined();
  expect(look(7201)).toBeUndefined();
  expect(look(7261)).toMatchObject({ since: NOW + 7_200_000, seconds: 61 });
});

test("a run has stalled only after ten minutes if processes at work are the only causes", () => {
  const workers = [seen(worker("main"), { running: 2 }), seen(worker("searcher"))];
  const busy = { ...healthy, workers, groups: unscored({ claims: { "0": "main-1", "1": "main-1" } }) };
  const detector = new StallDetector(config);
  const look = (seconds: number) => {
    const alive = workers.map((one) => ({ ...one, seenAt: NOW + seconds * 1000 }));
    return detector.observe({ ...busy, workers: alive }, NOW + seconds * 1000, null);
  };
  expect(look(0)).toBeUndefined();
  expect(look(500)).toBeUndefined();
  const stall = look(601);
  expect(stall && describeStall(stall)).toBe(
    "nothing has changed in step 0 since 00:16:40 UTC, for 601 s: main-1 runs 2 rollouts (possible; ends when they end, or limits.rolloutSeconds (120 s) ends them)",
  );
});

test("while unclaimed rollouts wait for a worker that runs others, a run has stalled only after ten minutes", () => {
  const stallAfter = (seconds: number, running: number) => {
    const workers = (at: number) => [
      seen(worker("main"), { running, seenAt: at }),
      seen(worker("searcher"), { seenAt: at }),
    ];
    const state = { ...healthy, groups: unscored({ claims: { "0": "main-1" } }) };
    const detector = new StallDetector(config);
    detector.observe({ ...state, workers: workers(NOW) }, NOW, null);
    const later = NOW + seconds * 1000;
    return detector.observe({ ...state, workers: workers(later) }, later, null)?.causes.map(({ what }) => what);
  };
  const atWork = ["main-1 runs 1 rollout", "1 rollout is not claimed by any worker"];
  expect(stallAfter(90, 1)).toBeUndefined();
  expect(stallAfter(601, 1)).toEqual(atWork);
  // The claimed one is not running: its worker has room.
  expect(stallAfter(90, 0)).toContain("1 rollout is not claimed by any worker");
});
