/**
 * @file The local cloud over HTTP, called from one process with the client that workers use. store.reward: rollout scores that it records per
 * second, with 16 calls in flight. store.commit.known and store.commit.hashed: median processor time of committing a checkpoint file, the cloud's
 * own included, with its SHA-256 passed in, as trainers do, and with the hash computed to sign the request. The two alternate.
 */
import { openAwsStore } from "../adapters/aws/store.ts";
import { startLocalCloud } from "../adapters/local-cloud/cloud.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import { MgrpoError } from "../core/errors.ts";
import type { ObjectStore, Table } from "../core/ports.ts";
import { median } from "../core/statistics.ts";
import { recordScores } from "../core/training/writes.ts";
import { sha256 } from "../engine/hash.ts";
import { createLog } from "../gpu-workers/log.ts";
import { retryingStore } from "../gpu-workers/retrying-store.ts";
import { cpuSecondsOf, print } from "./measurement.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const RUN = "bench";
const CONCURRENCY = 16;
const K = 8;
const [WARM_UP_GROUPS, MEASURED_GROUPS] = [64, 512];
const COMMIT_BYTES = 32 * 2 ** 20;
/** Of each kind, the first of which warms up. */
const COMMITS = 21;

const directory = temporaryFolder("bench");
const handlers = { objectCreated: async () => {}, tick: async () => {} };
const cloud = await startLocalCloud({ directory, handlers, tickSeconds: 0, verifySignatures: false });
Object.assign(process.env, cloud.environment);
const store = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
try {
  await measureScores(store.table);
  const log = createLog((line) => process.stderr.write(line));
  await measureCommits(retryingStore(store, 1, log).objects);
} finally {
  store.close();
  await cloud.close();
}

async function measureScores(table: Table): Promise<void> {
  await createGroups(table, 0, WARM_UP_GROUPS);
  await recordGroups(table, 0, WARM_UP_GROUPS);
  await createGroups(table, 1, MEASURED_GROUPS);
  const before = cloud.writes();
  const perSecond = await recordGroups(table, 1, MEASURED_GROUPS);
  const after = cloud.writes();
  print("store.reward", perSecond, "records/s", {
    concurrency: CONCURRENCY,
    rolloutsPerQuestion: K,
    records: MEASURED_GROUPS * K,
    requestBytes: Math.round((after.bytes - before.bytes) / (after.requests - before.requests)),
  });
}

async function measureCommits(objects: ObjectStore): Promise<void> {
  const taken = { known: [] as number[], hashed: [] as number[] };
  for (let i = 0; i < 2 * COMMITS; i++) {
    const form = i % 2 === 0 ? "known" : "hashed";
    const body = new Uint8Array(COMMIT_BYTES).fill(i);
    const hash = sha256(body);
    const [key, given] = [objectKeys.part(RUN, hash), form === "known" ? [hash] : []];
    taken[form].push(1000 * (await cpuSecondsOf(() => objects.commit(key, body, ...given))));
    await objects.delete([key]);
  }
  for (const form of ["known", "hashed"] as const)
    print(`store.commit.${form}`, median(taken[form].slice(1)), "ms of processor time", {
      bytes: COMMIT_BYTES,
      commits: COMMITS - 1,
    });
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
