/**
 * @file What the history records of a write: its facts, what it does to a lease, and what it pays for an agent behind an API. The requests
 * are those that the program's store adapter sends for the program's own writes.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import { type AwsStore, openAwsStore } from "../../adapters/aws/store.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import type { AgentRecord, RunRecord, StepRecord, WorkerRecord } from "../../core/contracts/records.ts";
import type { VerdictRecord } from "../../core/contracts/verdict-record.ts";
import type { TableChange, TableItem } from "../../core/ports.ts";
import { agentPayments } from "../../core/training/api-spending.ts";
import * as writes from "../../core/training/writes.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { factsOf } from "./history.ts";
import { leaseChange } from "./leases.ts";
import { paymentOf } from "./payments.ts";
import { endpointsOf } from "./stores.ts";
import { type StoreRequest, writeOf } from "./writes.ts";

const requests: StoreRequest[] = [];

/** Accepts everything. */
const server = createServer(async (incoming, response) => {
  const { method = "", url: path = "", headers } = incoming;
  const channel = headers["x-amz-target"] === undefined ? "s3" : "dynamo";
  requests.push({ channel, method, path, headers, body: await bodyOf(incoming) });
  response.end(channel === "dynamo" ? "{}" : "");
});

async function bodyOf(incoming: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of incoming) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}

server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;
const keys = { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "chaos", AWS_SECRET_ACCESS_KEY: "chaos" };
const store = openAwsStore(
  { table: "mgrpo", bucket: "mgrpo" },
  { ...keys, ...endpointsOf({ dynamo: port, s3: port }) },
);
afterAll(() => {
  store.close();
  server.close();
});

/** What the only request of this call writes; undefined: nothing. */
async function written(send: (store: AwsStore) => Promise<unknown>) {
  requests.length = 0;
  await send(store);
  expect(requests).toHaveLength(1);
  return writeOf(requests[0] ?? expect.fail());
}

const factsAfter = async (send: Parameters<typeof written>[0]) => {
  const write = await written(send);
  return write ? factsOf(write) : [];
};
const factsOfChange = (change: TableChange) => factsAfter(({ table }) => table.update(change));

const address = { run: "a", phase: "train", step: 0, group: 1, rollout: 2 } as const;
const step: StepRecord = {
  run: "a",
  step: 0,
  state: "open",
  groups: ["q"],
  round: 0,
  policy: { main: 0 },
  trained: ["main"],
  sampledBefore: 0,
  sampledTokens: 9,
  curriculum: { stage: 0, drawn: [1] },
};
const hash = "0".repeat(64);
const run: RunRecord = {
  run: "a",
  status: "running",
  reason: "",
  step: 0,
  configSha256: hash,
  questionsSha256: hash,
  startedAt: 0,
  maxHours: null,
  maxUsd: null,
};
const agent: AgentRecord = { run: "a", agent: "main", version: 0, trainer: "", fence: 0, takeovers: 0 };
const worker: WorkerRecord = {
  run: "a",
  worker: "main-1",
  agent: "main",
  roles: ["rollout", "train"],
  url: "",
  state: "alive",
  counter: 3,
  seenCounter: -1,
  seenAt: 0,
  release: "r",
  inFlight: [],
};

describe("facts", () => {
  test("committing an object is a fact, and overwriting one is another", async () => {
    const body = new TextEncoder().encode("{}");
    expect(await factsAfter(({ objects }) => objects.commit(objectKeys.outcome(address), body))).toEqual([
      "commit runs/a/outcomes/000000/1/2.json",
    ]);
    const [sent = expect.fail()] = requests;
    const { "if-none-match": _condition, ...headers } = sent.headers;
    const overwritten = writeOf({ ...sent, path: "/mgrpo/runs/a/a%20b.json?x-id=PutObject", headers });
    expect(overwritten && factsOf(overwritten)).toEqual(["overwrite runs/a/a b.json"]);
  });

  test("inserting an item is a fact", async () => {
    const insert = ({ table }: AwsStore) => table.insert(tableKeys.step("a", 0), step as unknown as TableItem);
    expect(await factsAfter(insert)).toEqual(["insert RUN#a STEP#000000"]);
  });

  test.each<[string, TableChange, readonly string[]]>([
    [
      "scores, one fact each",
      writes.recordScores(address, new Map([0, 2].map((k) => [k, { excluded: "lost" }]))),
      ["score GROUP#a#000000#1 GROUP rollouts.0", "score GROUP#a#000000#1 GROUP rollouts.2"],
    ],
    ["a finalized group", writes.finalizeGroupRecord(address, {}, 1), ["finalize GROUP#a#000000#1 GROUP"]],
    ["a step that is ready", writes.moveStep(step, "ready"), ["step RUN#a STEP#000000 ready"]],
    [
      "a step that is closed",
      writes.moveStep({ ...step, state: "ready" }, "closed"),
      ["step RUN#a STEP#000000 closed"],
    ],
    ["the next step", writes.advanceRun(run), ["advance RUN#a RUN 1"]],
    ["a version", writes.advanceAgent(agent), ["version RUN#a AGENT#main 1"]],
  ])("an update that can happen only once is a fact: %s", async (_what, change, facts) => {
    expect(await factsOfChange(change)).toEqual(facts);
  });

  test.each<[string, TableChange]>([
    ["a claim on rollouts", writes.claimUnclaimedGroup(address, [0, 1], "main-1")],
    ["a claim on a dead worker's rollouts", writes.claimRollouts(address, [0], "main-1", new Map([[0, "main-0"]]))],
    ["a claim that is released", writes.releaseClaim(address, 0, "main-1")],
    ["a crash", writes.countCrash(address, 0, "main-1")],
    ["the replacement of groups", writes.replaceGroups(step, { ...step, groups: ["q", "r"], round: 1 })],
    ["a change of the run's status", writes.endRun("a", { code: "losses", reason: "because" })],
    ["the claim of a trainer", writes.claimTrainer(agent, "main-1")],
    ["a heartbeat", writes.heartbeat("a", "main-1", "alive", { running: 2, quarantined: 0 })],
  ])("%s, which may happen again, is not a fact", async (_what, change) => {
    expect(await factsOfChange(change)).toEqual([]);
  });

  test("reads and deletions are not facts", async () => {
    expect(await written(({ table }) => table.query("RUN#a", "WORKER#"))).toBeUndefined();
    expect(await written(({ objects }) => objects.head("runs/a/teams/000000.json"))).toBeUndefined();
    expect(await written(({ table }) => table.delete(tableKeys.worker("a", "main-1")))).toBeUndefined();
  });
});

describe("leases", () => {
  const NOW = 1_000_000;
  const leaseAfter = async (send: Parameters<typeof written>[0]) => {
    const write = await written(send);
    return write && leaseChange(write, NOW);
  };
  const leaseOfChange = (change: TableChange) => leaseAfter(({ table }) => table.update(change));
  const WORKER = "RUN#a WORKER#main-1";

  test("a worker holds its lease once it registers; heartbeats extend it, and declaring the worker dead ends it", async () => {
    const register = ({ table }: AwsStore) =>
      table.insert(tableKeys.worker("a", "main-1"), worker as unknown as TableItem);
    expect(await leaseAfter(register)).toEqual({ name: WORKER, act: "grant" });
    const beat = writes.heartbeat("a", "main-1", "alive", { running: 2, quarantined: 0 });
    expect(await leaseOfChange(beat)).toEqual({ name: WORKER, act: "grant" });
    expect(await leaseOfChange(writes.markDead(worker))).toEqual({ name: WORKER, act: "end" });
  });

  test.each<[string, TableChange]>([
    ["what a tick saw", writes.recordSeenCounter(worker, NOW)],
    ["a suspicion", writes.suspectDeath(worker, NOW)],
    ["a drain", writes.drainWorker("a", "main-1")],
    ["the rollout that it runs alone", writes.setInFlight("a", "main-1", "alive", ["0/0/0"])],
    ["a claim on rollouts", writes.claimUnclaimedGroup(address, [0], "main-1")],
  ])("%s does not extend the lease", async (_what, change) => {
    expect(await leaseOfChange(change)).toBeUndefined();
  });

  const subject = "0f".repeat(32);
  const VERDICT = `VERDICT#a#${subject} JUDGE#judge-1`;
  const key = tableKeys.verdict("a", subject, "judge-1");
  const claimed: VerdictRecord = {
    run: "a",
    subject,
    judge: "judge-1",
    asks: 1,
    token: "t",
    heldUntil: NOW + 20_000,
    failures: 0,
    unusable: 0,
    failingSince: 0,
    failedAt: 0,
    expiresAt: 1,
  };
  const until = (heldUntil: number): TableChange => ({ key, set: [[["heldUntil"], heldUntil]], when: [] });

  test("a claim on a verdict is held until the time in its record, can be released, and ends with the verdict", async () => {
    const insert = (record: TableItem) => leaseAfter(({ table }) => table.insert(key, record));
    expect(await insert({ ...claimed })).toEqual({
      ...{ name: VERDICT, act: "grant", seconds: 20 },
      claim: { madeAt: NOW, heldUntil: NOW + 20_000 },
    });
    const again = { ...until(NOW + 9000), set: [...(until(NOW + 9000).set ?? []), [["token"], "u"] as const] };
    expect(await leaseOfChange(again as TableChange)).toMatchObject({ seconds: 9, claim: { heldUntil: NOW + 9000 } });
    const { token: _token, ...free } = claimed;
    expect(await insert(free)).toBeUndefined();
    expect(await leaseOfChange(until(NOW + 3000))).toEqual({ name: VERDICT, act: "grant", seconds: 3 });
    // The store's clock jumped ahead by an hour while the write was under way.
    expect(await leaseOfChange(until(NOW + 51_000 - 3_600_000))).toEqual({ name: VERDICT, act: "grant", seconds: 0 });
    expect(await leaseOfChange(until(0))).toEqual({ name: VERDICT, act: "release" });
    const verdict = objectKeys.verdict("a", subject, "judge-1");
    const commit = ({ objects }: AwsStore) => objects.commit(verdict, new TextEncoder().encode("{}"));
    expect(await leaseAfter(commit)).toEqual({ name: VERDICT, act: "end" });
  });
});

test("a payment for an agent behind an API has the number that its payer gave it; registering is not a payment", async () => {
  const changes: TableChange[] = [];
  const { table } = memoryStore();
  const update: typeof table.update = (change) => {
    changes.push(change);
    return table.update(change);
  };
  const pay = agentPayments({ insert: table.insert, update }, "a");
  await pay(0.25);
  await pay(0.5);
  const writes = [];
  for (const change of changes) writes.push(await written((sent) => sent.table.update(change)));
  expect(writes.flatMap((write) => (write && paymentOf(write)) ?? [])).toEqual([
    { run: "a", name: "1.1", microUsd: 250_000 },
    { run: "a", name: "1.2", microUsd: 500_000 },
  ]);
  expect(changes.length).toBeGreaterThan(2);
});
