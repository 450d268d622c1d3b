/**
 * @file Runs a scripted team through the functions with unreliable events (late, reordered, duplicated or dropped) and functions that crash
 * before or after a write. All faults are drawn from a seed, so a failure can be reproduced.
 */
import { expect } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys, parseObjectKey, tableKeys } from "../../core/contracts/keys.ts";
import { GroupRecord, RunRecord, StepRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { ObjectStore, Table } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { openContext } from "../../functions/context.ts";
import { type Functions, openFunctions } from "../../functions/functions.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { playRollout, prepare, publish, rewards } from "../fakes/scripted-team.ts";

/** What goes wrong in a simulation. */
export interface Faults {
  readonly seed: number;
  /** Probabilities per event: that it is lost, and that it is delivered twice. */
  readonly drop: number;
  readonly duplicate: number;
  /** Probability that the functions crash at a commit, an insert or an update, before or after it. Deletes never crash. */
  readonly die: number;
  /** See `FunctionOptions`. */
  readonly isLongLived?: boolean;
}

export const reliable: Faults = { seed: 0, drop: 0, duplicate: 0, die: 0 };

export async function simulate(config: RunConfig, faults: Faults) {
  const random = stream("post", faults.seed);
  const store = memoryStore();
  const pending: string[] = [];
  const objects = notifying(store.objects, (key) => {
    if (random.uniform() < faults.drop) return;
    pending.push(key, ...(random.uniform() < faults.duplicate ? [key] : []));
  });
  const crashing = {
    ...store,
    objects: crashingObjects(objects, random.uniform, faults.die),
    table: crashingTable(store.table, random.uniform, faults.die),
  };
  const open = () =>
    openFunctions(openContext(crashing, { rewardsOf: async () => rewards, isLongLived: faults.isLongLived ?? false }));
  let functions = open();
  const attempt = async (act: (f: Functions) => Promise<unknown>) => {
    await act(functions).catch((error: unknown) => {
      if (!(error instanceof MgrpoError) || error.code !== "canceled") throw error;
      functions = open();
    });
  };
  const request = await prepare(objects, config);
  const read = async (key: { pk: string; sk: string }) => store.table.get(key);
  for (let i = 0; i < 5000; i++) {
    const item = await read(tableKeys.run(config.run));
    if (!item) await attempt((f) => f.startRun(request));
    const run = item && RunRecord.parse(item);
    if (run && run.status !== "running") return finalRecords(store, config);
    const steps = run ? await readSteps(store, config.run) : [];
    if (run) checkPipeline(config, run, steps);
    if (run && random.uniform() < 0.6) await work(objects, config, run, steps, random.integer);
    const [index = 0] = random.choose(pending.length, 1);
    const [key] = pending.splice(index, 1);
    if (key !== undefined) await attempt((f) => deliver(f, key));
    if ((faults.drop > 0 || faults.die > 0) && random.uniform() < (pending.length > 0 ? 0.05 : 0.3))
      await attempt((f) => f.tickAll());
  }
  throw new Error("the run did not end");
}

const readSteps = async ({ table }: Pick<ReturnType<typeof memoryStore>, "table">, run: string) =>
  (await table.query(tableKeys.run(run).pk, "STEP#")).map((item) => StepRecord.parse(item));

/** The invariants that hold at every moment, whatever goes wrong. */
function checkPipeline({ staleness, agents }: RunConfig, run: RunRecord, steps: readonly StepRecord[]) {
  const closed = steps.filter(({ state }) => state === "closed").length;
  expect(closed === run.step || closed === run.step + 1, `${closed} closed, RUN at ${run.step}`).toBe(true);
  for (const [i, { step, state, policy }] of steps.entries()) {
    expect(step).toBe(i);
    // Steps close in order.
    expect(state === "closed").toBe(step < closed);
    // At most `staleness` steps after the run's current one are planned, and one more once its groups are finalized.
    const isSampled = steps[run.step]?.state !== "open";
    expect(step).toBeLessThanOrEqual(run.step + staleness + (isSampled ? 1 : 0));
    for (const [agent, version] of Object.entries(policy))
      expect(version).toBe(agents[agent]?.trained ? Math.max(0, step - staleness) : 0);
  }
}

/** One action of a worker, in one of the steps in flight. Repeats are harmless. */
async function work(
  objects: ObjectStore,
  config: RunConfig,
  run: RunRecord,
  steps: readonly StepRecord[],
  integer: (n: number) => number,
) {
  const step = steps[run.step + (config.staleness > 0 ? integer(config.staleness + 1) : 0)];
  if (step?.state === "open") {
    await playRollout(objects, config, step, integer(step.groups.length), integer(config.rolloutsPerQuestion));
  } else if (step?.state === "ready" && step.step === run.step) {
    const agent = step.trained[integer(step.trained.length)] ?? "";
    await publish(objects, config, agent, step.step + 1);
  }
}

async function deliver(functions: Functions, key: string) {
  const kind = parseObjectKey(key)?.kind;
  if (kind === "outcome") await functions.scoreRollout({ key });
  if (kind === "manifest") await functions.manifestCreated({ key });
  if (kind === "team") await functions.enqueueEvaluation({ key });
}

/** What simulations are compared by, without what may differ: the run's start time and the groups' expiry times. */
async function finalRecords({ table, objects }: ReturnType<typeof memoryStore>, config: RunConfig) {
  const run = RunRecord.parse(await table.get(tableKeys.run(config.run)));
  const steps = await readSteps({ table }, config.run);
  const groups = await Promise.all(
    steps.flatMap((step) => step.groups.map((_, g) => table.get(tableKeys.group(config.run, step.step, g)))),
  );
  return {
    run: { ...run, startedAt: 0 },
    steps,
    groups: groups.map((item) => ({ ...GroupRecord.parse(item), expiresAt: 0 })),
    agents: await table.query(tableKeys.run(config.run).pk, "AGENT#"),
    jobs: await table.query(tableKeys.run(config.run).pk, "JOB#"),
    team: new TextDecoder().decode(await objects.get(objectKeys.team(config.run, run.step))),
    keys: objects.keys(),
  };
}

/** Calls `created` for each new object whose event a function handles. */
function notifying(objects: ReturnType<typeof memoryStore>["objects"], created: (key: string) => void): ObjectStore {
  return {
    ...objects,
    async commit(key, body) {
      const isNew = (await objects.head(key)) === undefined;
      const won = await objects.commit(key, body);
      if (isNew && parseObjectKey(key)) created(key);
      return won;
    },
  };
}

const crash = () => new MgrpoError("canceled", "the function crashed");

function crashingObjects(objects: ObjectStore, uniform: () => number, chance: number): ObjectStore {
  return { ...objects, commit: (key, body) => mayCrash(() => objects.commit(key, body), uniform, chance) };
}

function crashingTable(table: Table, uniform: () => number, chance: number): Table {
  return {
    ...table,
    insert: (key, item) => mayCrash(() => table.insert(key, item), uniform, chance),
    update: (change) => mayCrash(() => table.update(change), uniform, chance),
  };
}

async function mayCrash<T>(write: () => Promise<T>, uniform: () => number, chance: number): Promise<T> {
  if (uniform() < chance / 2) throw crash();
  const result = await write();
  if (uniform() < chance / 2) throw crash();
  return result;
}
