/**
 * @file The checker finds what is broken in the program itself: small trials, each with one part replaced by one that breaks a
 * law, or several. Together they break every law. checker.test.ts breaks histories instead.
 */
import { beforeAll, expect, test } from "vitest";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import type { ObjectStore, Store, Table, TableChange } from "../../core/ports.ts";
import type { AppRunner } from "../../gpu-workers/gateway/app-rollout.ts";
import { relayEngine } from "../fixtures/relay/policy.ts";
import { mortalStore } from "../kill/mortal-store.ts";
import { check, laws } from "./checker.ts";
import type { Entry, Trial } from "./history.ts";
import { runSmallTrial, type Sabotage, type SmallProcess } from "./small-trial.ts";

const withTable = (store: Store, changed: Partial<Table>): Store => ({
  ...store,
  table: { ...store.table, ...changed },
});
const withObjects = (store: Store, changed: Partial<ObjectStore>): Store => ({
  ...store,
  objects: { ...store.objects, ...changed },
});

/** Breaks the store of one process only. */
const of =
  (broken: SmallProcess, change: (store: Store) => Store) =>
  (store: Store, process: SmallProcess): Store =>
    process === broken ? change(store) : store;

/** Reports matching updates as applied, without applying them. */
const swallow = (store: Store, matches: (change: TableChange) => boolean): Store =>
  withTable(store, {
    update: async (change) =>
      matches(change) ? { applied: true, item: await store.table.get(change.key) } : store.table.update(change),
  });

const sets = ({ set = [] }: TableChange, attribute: string) => set.some(([[name]]) => name === attribute);
const ofJudges = ({ key }: TableChange) => key.sk.startsWith(tablePrefixes.judgeSpending);
const marksDead = ({ set = [] }: TableChange) => set.some(([[name], value]) => name === "state" && value === "dead");

/** A request of a tool, counted in the run's budget. */
const chargesTool = ({ key, add = [] }: TableChange) =>
  key.sk === tableKeys.toolSpending("a").sk && add.some(([[name]]) => name === "calls");

const FIRST_OUTCOME = objectKeys.outcome({ run: "a", phase: "train", step: 0, group: 0, rollout: 0 });
const manifest = (version: number) => objectKeys.manifest("a", "main", version);

/** Scores are written twice, as after a lost answer, and without the condition that makes the second write harmless. */
const unconditionalScores = of("functions", (store) =>
  withTable(store, {
    async update(change) {
      if (!sets(change, "rollouts")) return store.table.update(change);
      await store.table.update({ ...change, when: [] });
      return store.table.update({ ...change, when: [] });
    },
  }),
);

const withoutSecondQuestion = of("functions", (store) =>
  withTable(store, {
    insert: (key, item) =>
      store.table.insert(
        key,
        key.sk.startsWith("STEP#") ? { ...item, groups: [String([item["groups"]].flat()[0])] } : item,
      ),
  }),
);

const losingFirstOutcome = of("main", (store) =>
  withObjects(store, {
    commit: async (key, ...rest) => key === FIRST_OUTCOME || store.objects.commit(key, ...rest),
  }),
);

/** The first outcome is kept in memory, where every process finds it. */
function cachingFirstOutcome(): (store: Store) => Store {
  let kept: Uint8Array | undefined;
  return (store) =>
    withObjects(store, {
      async commit(key, body, ...rest) {
        if (key !== FIRST_OUTCOME) return store.objects.commit(key, body, ...rest);
        kept ??= body;
        return true;
      },
      get: async (key) => (key === FIRST_OUTCOME ? kept : store.objects.get(key)),
      head: async (key) => (key === FIRST_OUTCOME ? kept?.length : store.objects.head(key)),
    });
}

const publishingAhead = of("main", (store) =>
  withObjects(store, {
    async commit(key, ...rest) {
      if (key === manifest(1)) await store.objects.commit(manifest(2), ...rest);
      return store.objects.commit(key, ...rest);
    },
  }),
);

const advancingTwice = of("functions", (store) =>
  withTable(store, {
    update(change) {
      if (change.key.sk !== "RUN" || !sets(change, "step")) return store.table.update(change);
      return store.table.update({ ...change, set: [[["step"], 2]] });
    },
  }),
);

/** Every sampler has the weights that were opened first. */
function withOldWeights(): typeof relayEngine {
  let first: Parameters<typeof relayEngine.openSampler>[0] | undefined;
  return {
    ...relayEngine,
    openSampler: (files, ...rest) => {
      first ??= files;
      return relayEngine.openSampler(first, ...rest);
    },
  };
}

/** Neither instance sees what the other has claimed and stored. */
const ignoringVerdicts = of("functions", (store) =>
  withObjects(
    withTable(store, {
      insert: async (key, item) => (await store.table.insert(key, item)) || key.sk.startsWith("JUDGE#"),
    }),
    { get: async (key) => (key.includes("/verdicts/") ? undefined : store.objects.get(key)) },
  ),
);

/** Both instances see claims as expired. */
const ignoringClaims = of("functions", (store) =>
  withTable(store, {
    get: async (key) => {
      const item = await store.table.get(key);
      return item && key.sk.startsWith("JUDGE#") ? { ...item, heldUntil: 0 } : item;
    },
  }),
);

/** The charges of tools are numbered, but their sums are not added. */
const withoutToolCharges = of("searcher", (store) =>
  withTable(store, { update: (change) => store.table.update(chargesTool(change) ? { ...change, add: [] } : change) }),
);

/** The charges of tools are written twice, as after a lost answer, and without the condition that makes the second write harmless. */
const unconditionalToolCharges = of("searcher", (store) =>
  withTable(store, {
    async update(change) {
      if (!chargesTool(change)) return store.table.update(change);
      await store.table.update({ ...change, when: [] });
      return store.table.update({ ...change, when: [] });
    },
  }),
);

/** The main worker dies, and nobody can mark it dead. */
const undeclaredDeath = (store: Store, process: SmallProcess): Store =>
  swallow(process === "main" ? mortalStore(store, 20).store : store, marksDead);

/** The attempt ends in time, but the call to the app does not. */
const withoutSignal = (runner: AppRunner): AppRunner => ({
  ...runner,
  run: (call) => runner.run(call, new AbortController().signal),
});

/** The main worker has sent heartbeats, and none for ten seconds: more than two leases, three ticks and the slack. */
function isSilent(history: readonly Entry[], now: number): boolean {
  const isOfMain = ({ lease }: Entry) => lease?.act === "grant" && lease.name.startsWith("RUN#a WORKER#main");
  const heartbeats = history.filter(isOfMain).map(({ answeredAt }) => answeredAt);
  return heartbeats.length > 0 && now - Math.max(...heartbeats) > 10_000;
}

/** Whether a fact that begins like this has been recorded. */
function recorded(start: string) {
  return (history: readonly Entry[]) => history.some(({ facts }) => facts.some((fact) => fact.startsWith(start)));
}

const sabotages: [string, readonly string[], Sabotage][] = [
  [
    "an outcome that is lost after its commit",
    ["the trial ends and every run is finished"],
    { store: losingFirstOutcome, deadlineSeconds: 8 },
  ],
  [
    "a question that is skipped",
    ["scores, groups, weights and evaluations are those of the undisturbed run"],
    { store: withoutSecondQuestion },
  ],
  ["a score that is counted twice", ["each fact is recorded once"], { store: unconditionalScores }],
  [
    "objects that are written without a condition",
    ["no object is overwritten"],
    {
      wire({ headers, body }) {
        delete headers["if-none-match"];
        return body;
      },
      isEnough: recorded("overwrite "),
    },
  ],
  [
    "a version that is published before its step, and before the version before it",
    ["a version follows its step", "versions are linear"],
    { store: publishingAhead, isEnough: recorded(`commit ${manifest(1)}`) },
  ],
  [
    "a step that is skipped",
    ["steps advance one at a time"],
    { store: advancingTwice, isEnough: recorded("advance RUN#a RUN 2") },
  ],
  [
    "a worker that dies and stays alive in its record",
    ["no wait lasts beyond its deadline"],
    { store: undeclaredDeath, isEnough: isSilent },
  ],
  [
    "a judge that hangs, and a client that waits too long",
    ["no wait lasts beyond its deadline"],
    { faults: [{ kind: "hang", request: 0 }], judgeSeconds: 60 },
  ],
  [
    "an app that hangs, and a worker that never hangs up",
    ["no wait lasts beyond its deadline"],
    { hungApp: withoutSignal, deadlineSeconds: 35 },
  ],
  ["an outcome that is scored and never stored", ["a score follows its outcome"], { store: cachingFirstOutcome() }],
  [
    "a sampler that does not load the new version",
    ["every trained token was sampled by the version that its record names"],
    { engine: withOldWeights() },
  ],
  [
    "two instances that ask for the same verdict",
    ["the judge is asked again only after a disturbance", "the judge is asked only under a claim"],
    { store: ignoringVerdicts, instances: 2 },
  ],
  [
    "two instances that see no claim as held",
    ["a verdict is claimed by one caller at a time"],
    { store: ignoringClaims, instances: 2 },
  ],
  [
    "a judge's bill that is not written",
    ["every answer of the judge is billed"],
    { store: of("functions", (store) => swallow(store, ofJudges)) },
  ],
  [
    "a bill that keeps what was reserved",
    ["the judge's bill exceeds the cost of its answers only by requests whose cost is unknown"],
    { store: of("functions", (store) => swallow(store, (change) => ofJudges(change) && change.remove !== undefined)) },
  ],
  [
    "a tool's requests that are not billed",
    ["the tools' bill is the price of their requests"],
    { store: withoutToolCharges },
  ],
  [
    "a tool's requests that are billed twice",
    ["the tools' bill is the price of their requests"],
    { store: unconditionalToolCharges },
  ],
];

let reference: Trial;
beforeAll(async () => {
  reference = await runSmallTrial();
}, 240_000);

const brokenBy = (trial: Trial) => check({ trial, reference }).map((line) => line.split(": ", 1)[0]);

test("the program itself keeps every law, even if a judge hangs until its client's deadline", {
  timeout: 240_000,
}, async () => {
  expect(check({ trial: reference, reference }), reference.log.join("\n")).toEqual([]);
  const trial = await runSmallTrial({ isIntact: true, faults: [{ kind: "hang", request: 0 }] });
  expect(trial.history.filter(({ fault }) => fault === "hang")).toHaveLength(1);
  expect(check({ trial, reference }), trial.log.join("\n")).toEqual([]);
});

test.each(sabotages)("the checker reports %s", async (_what, expected, sabotage) => {
  const trial = await runSmallTrial(sabotage);
  expect(brokenBy(trial), trial.log.join("\n")).toEqual(expect.arrayContaining([...expected]));
});

test("each law is broken by at least one of these sabotages", () => {
  expect(new Set(sabotages.flatMap(([, broken]) => broken))).toEqual(new Set(Object.keys(laws)));
});
