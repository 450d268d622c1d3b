/** @file store.reward: rollout scores per second that the local cloud records over HTTP, from one process with 16 calls in flight. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAwsStore } from "../adapters/aws/store.ts";
import { startLocalCloud } from "../adapters/local-cloud/cloud.ts";
import { tableKeys } from "../core/contracts/keys.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Table } from "../core/ports.ts";
import { recordScores } from "../core/training/writes.ts";

const RUN = "bench";
const CONCURRENCY = 16;
const K = 8;
const [WARM_UP_GROUPS, MEASURED_GROUPS] = [64, 512];

interface StoreFigure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly config: Readonly<Record<string, number>>;
}

async function* benchStore(): AsyncGenerator<StoreFigure> {
  const directory = await mkdtemp(join(tmpdir(), "mgrpo-bench-"));
  const handlers = { objectCreated: async () => {}, tick: async () => {} };
  const cloud = await startLocalCloud({ directory, handlers, tickSeconds: 0, verifySignatures: false });
  Object.assign(process.env, cloud.environment);
  const store = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  try {
    await createGroups(store.table, 0, WARM_UP_GROUPS);
    await recordGroups(store.table, 0, WARM_UP_GROUPS);
    await createGroups(store.table, 1, MEASURED_GROUPS);
    const before = store.meter.read();
    const perSecond = await recordGroups(store.table, 1, MEASURED_GROUPS);
    const after = store.meter.read();
    const records = MEASURED_GROUPS * K;
    yield {
      name: "store.reward",
      value: perSecond,
      unit: "records/s",
      config: {
        concurrency: CONCURRENCY,
        rolloutsPerQuestion: K,
        records,
        requestBytes: Math.round((after.bytes - before.bytes) / (after.requests - before.requests)),
      },
    };
  } finally {
    store.close();
    await cloud.close();
    await rm(directory, { recursive: true });
  }
}

async function createGroups(table: Table, step: number, groups: number): Promise<void> {
  const claims = Object.fromEntries(Array.from({ length: K }, (_, k) => [String(k), "main-1"]));
  for (let group = 0; group < groups; group++) {
    const record = { run: RUN, step, group, state: "open", claims, rollouts: {} };
    await table.insert(tableKeys.group(RUN, step, group), record);
  }
}

/** Records K scores in each group of a step. Returns records per second. */
async function recordGroups(table: Table, step: number, groups: number): Promise<number> {
  const score = (k: number) => ({
    reward: 1,
    correct: 1,
    wellFormed: true,
    tokens: 10,
    invocations: { searcher: [{ id: `${k}`.padStart(64, "0"), reward: 0.75, expert: 1 }] },
  });
  let next = 0;
  const started = performance.now();
  const worker = async () => {
    for (let i = next++; i < groups * K; i = next++) {
      const [group, k] = [Math.floor(i / K), i % K];
      const { applied } = await table.update(recordScores({ run: RUN, step, group }, new Map([[k, score(k)]])));
      if (!applied) throw new MgrpoError("store-unreachable", `bench: score ${k} of group ${group} was refused`);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return (groups * K * 1000) / (performance.now() - started);
}

for await (const figure of benchStore()) process.stdout.write(`${JSON.stringify(figure)}\n`);
