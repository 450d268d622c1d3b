/** @file Workers under faults: what is abandoned, what is released, what halts the run, who is refused. Except in the last test, the store is in memory. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import { builtModule } from "../../built-module.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { AgentRecord, GroupRecord, WorkerRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, Store, Tool } from "../../core/ports.ts";
import { claimRollouts, claimUnclaimedGroup, markDead, releaseClaim, resumeRun } from "../../core/training/writes.ts";
import { openWorkerObserver } from "../../gpu-workers/liveness/observer.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { freePort } from "../fakes/proxies.ts";
import { relayEngine } from "../fixtures/relay/policy.ts";
import { tools as relayTools } from "../fixtures/relay/tools.ts";
import { openRun, recordsOf, startWorker } from "../fixtures/relay/world.ts";

const lines: string[] = [];
const log = createLog((line) => void lines.push(line));
const never = new AbortController().signal;
const searcher = { agent: "searcher" };

const workersOf = async ({ table }: Store) =>
  (await table.query(tableKeys.run("relay").pk, tablePrefixes.workers)).map((item) => WorkerRecord.parse(item));
const groupOf = async ({ table }: Store, step: number, group: number) =>
  GroupRecord.parse(await table.get(tableKeys.group("relay", step, group)));

/** Never finishes a sample; it only rejects when canceled. */
const silent: PolicyEngine = {
  ...relayEngine,
  openSampler: async () => ({
    sample: (_request, signal) =>
      new Promise((_, reject) =>
        signal?.addEventListener("abort", () => reject(new MgrpoError("canceled", "stopped"))),
      ),
    release() {},
    async close() {},
  }),
};

test("a group of 64 rollouts whose first claim was given back is claimed in parts, as DynamoDB's limits require", async () => {
  const { config, store } = await openRun(log, { questionsPerStep: 1, rolloutsPerQuestion: 64 });
  const address = { run: config.run, step: 0, group: 0 };
  await store.table.update(claimUnclaimedGroup(address, [0], "gone"));
  await store.table.update(releaseClaim(address, 0, "gone"));
  await Promise.all([
    startWorker(store, config.run, {}, never, log),
    startWorker(store, config.run, searcher, never, log),
  ]);
  expect(await recordsOf(store, config)).toMatchObject({ status: "finished" });
});

test("rollouts whose sub-agent never answers are abandoned and excluded, never given a reward of 0", async () => {
  const limits = { invocationSeconds: 0.2, rolloutSeconds: 60, attempts: 2, lostFraction: 1 };
  const { config, store } = await openRun(log, { limits });
  await Promise.all([
    startWorker(store, config.run, {}, never, log),
    startWorker(store, config.run, searcher, never, log, { engineOf: () => silent }),
  ]);
  const rollouts = await Promise.all([0, 1].map(async (g) => Object.values((await groupOf(store, 0, g)).rollouts)));
  const lost = rollouts.flat().filter((score) => "excluded" in score);
  expect(lost.length).toBeGreaterThan(0);
  for (const { excluded } of lost)
    expect(excluded).toMatch(/^infrastructure, 2 attempts: .*limits.invocationSeconds 0.2/);
  const rewarded = rollouts.flat().flatMap((score) => ("reward" in score ? [score] : []));
  for (const { invocations } of rewarded) expect(invocations).toEqual({});
  expect(lost.length + rewarded.length).toBe(4);
});

/** The searcher's tool, whose service refuses until it is fixed. */
function refusing(refusal: MgrpoError) {
  const lookup = relayTools.get("lookup") ?? expect.fail();
  const service = { requests: 0, isFixed: false, tools: new Map<string, Tool>() };
  service.tools.set("lookup", {
    ...lookup,
    run: (args, context) => {
      service.requests += 1;
      return service.isFixed ? lookup.run(args, context) : Promise.reject(refusal);
    },
  });
  return service;
}

test.each([
  ["tool-backend", "HTTP 401: it refuses the key: check SERPER_API_KEY"],
  ["endpoint-refused", "HTTP 402: it wants to be paid first"],
] as const)(
  "%s: a service that refuses to work halts the run at once, and no rollout is excluded",
  async (code, why) => {
    const { config, store } = await openRun(log, { limits: { attempts: 3 } });
    const service = refusing(new MgrpoError(code, why));
    const team = () => [
      startWorker(store, config.run, {}, never, log),
      startWorker(store, config.run, searcher, never, log, { tools: service.tools }),
    ];
    const ends = await Promise.allSettled(team());
    for (const end of ends) {
      expect(end).toMatchObject({ status: "rejected", reason: { code: "run-halted" } });
      expect(String((end as PromiseRejectedResult).reason)).toContain(`run 'relay' is halted: ${why}`);
    }
    // At most one for each conversation in progress.
    expect(service.requests).toBeLessThanOrEqual(4);
    expect(await store.table.get(tableKeys.run("relay"))).toMatchObject({ status: "halted", reason: why });
    // A worker that leaves is marked dead at once; one that crashed would stay alive until its lease expires.
    for (const { state } of await workersOf(store)) expect(state).toBe("dead");
    // Rollouts that had ended are scored a moment later.
    await vi.waitFor(async () => {
      for (const { claims = {}, crashes, rollouts } of await Promise.all([0, 1].map((g) => groupOf(store, 0, g)))) {
        expect(crashes).toEqual({});
        // All claims are given back, except those of scored rollouts.
        expect(Object.keys(rollouts)).toEqual(expect.arrayContaining(Object.keys(claims)));
        for (const score of Object.values(rollouts)) expect(score).not.toHaveProperty("excluded");
      }
    }, 60_000);

    service.isFixed = true;
    await store.table.update(resumeRun(config.run));
    await Promise.all(team());
    const { status, steps } = await recordsOf(store, config);
    expect(status).toBe("finished");
    expect(JSON.stringify(steps)).not.toContain("excluded");
  },
);

test("a service that refuses to work for an evaluation halts the run with no request beyond those in flight; the job is queued again", async () => {
  const { config, store } = await openRun(log, {
    evaluation: { suites: [{ name: "sampled" }] },
    limits: { attempts: 3 },
  });
  const service = refusing(new MgrpoError("tool-backend", "HTTP 402: top it up"));
  const evaluator: Parameters<typeof startWorker>[2] = { agent: "*", roles: ["eval"] };
  const working = startWorker(store, config.run, evaluator, never, log, { tools: service.tools });
  await expect(working).rejects.toThrow("run 'relay' is halted: HTTP 402: top it up");
  expect(service.requests).toBeLessThanOrEqual(config.agents["main"]?.engine.slots ?? 0);
  const [job] = await store.table.query(tableKeys.run("relay").pk, tablePrefixes.jobs);
  expect(job).toMatchObject({ state: "queued", owner: "" });
  expect(await store.objects.get(objectKeys.evaluation("relay", String(job?.["job"])))).toBeUndefined();
});

test("a service that refuses to open a version for sampling halts the run", async () => {
  const { config, store } = await openRun(log);
  const refusal = new MgrpoError("endpoint-refused", "HTTP 402: top it up");
  const engine: PolicyEngine = { ...relayEngine, openSampler: () => Promise.reject(refusal) };
  const working = startWorker(store, config.run, {}, never, log, { engineOf: () => engine });
  await expect(working).rejects.toThrow("run 'relay' is halted: HTTP 402: top it up");
});

test("with no worker for a sub-agent, no rollout is started and none abandoned", async () => {
  const { config, store } = await openRun(log, {
    limits: { rolloutSeconds: 0.1, attempts: 1 },
    liveness: { heartbeatSeconds: 0.05, leaseSeconds: 10, pollSeconds: 0.02 },
  });
  const stop = new AbortController();
  const main = startWorker(store, config.run, {}, stop.signal, log);
  // Long enough for a rollout to start and run out of time.
  const counters = async () => (await workersOf(store)).map(({ counter }) => counter);
  await vi.waitFor(async () => expect((await counters())[0]).toBeGreaterThan(10), 60_000);
  const { state, claims = {}, rollouts } = await groupOf(store, 0, 0);
  expect({ state, claims, rollouts }).toEqual({ state: "open", claims: {}, rollouts: {} });
  stop.abort();
  await main;
});

test("a draining worker releases all its claims at once: no worker waits for its lease to expire", async () => {
  const liveness = { heartbeatSeconds: 0.2, leaseSeconds: 600, pollSeconds: 0.02 };
  const { config, store } = await openRun(log, { liveness });
  const stop = new AbortController();
  const slow = startWorker(store, config.run, searcher, stop.signal, log, { engineOf: () => silent });
  const first = startWorker(store, config.run, {}, stop.signal, log);
  await vi.waitFor(async () => expect(Object.keys((await groupOf(store, 0, 0)).claims ?? {})).not.toEqual([]), 60_000);
  stop.abort();
  await Promise.all([slow, first]);
  expect((await workersOf(store)).map(({ state }) => state)).toEqual(["dead", "dead"]);
  // Rollouts that had ended are scored a moment later.
  await vi.waitFor(async () => {
    const { claims = {}, rollouts } = await groupOf(store, 0, 0);
    expect(Object.keys(claims).filter((k) => !rollouts[k])).toEqual([]);
  }, 60_000);
  expect(AgentRecord.parse(await store.table.get(tableKeys.agent("relay", "main"))).trainer).toBe("");
  await Promise.all([
    startWorker(store, config.run, {}, never, log),
    startWorker(store, config.run, searcher, never, log),
  ]);
  expect(await recordsOf(store, config)).toMatchObject({ status: "finished" });
});

test("a worker that was declared dead comes back as a new incarnation", async () => {
  const { config, store } = await openRun(log);
  const main = startWorker(store, config.run, {}, never, log);
  // A heartbeat in between makes the write fail: it is retried on the record as it is then.
  await vi.waitFor(async () => {
    for (const seen of await workersOf(store)) await store.table.update(markDead(seen));
    expect((await workersOf(store)).map(({ state }) => state)).toContain("dead");
  }, 60_000);
  await vi.waitFor(async () => expect(await workersOf(store)).toHaveLength(2), 60_000);
  await Promise.all([main, startWorker(store, config.run, searcher, never, log)]);
  expect(await recordsOf(store, config)).toMatchObject({ status: "finished" });
  expect((await workersOf(store)).filter(({ agent }) => agent === "main")).toHaveLength(2);
});

test("a rollout that kills its worker three times while it runs alone is abandoned; rollouts that died alongside it are not", async () => {
  const liveness = { heartbeatSeconds: 0.05, leaseSeconds: 0.3, pollSeconds: 0.02 };
  const { config, store } = await openRun(log, { liveness, limits: { lostFraction: 1 } });
  const run = await readRunContext(config.run, "0.0.0", store, log);
  const address = { run: config.run, step: 0, group: 0 };
  for (let death = 0; death < 4; death++) {
    // Each worker of rollout 0 dies; the first also ran rollout 1.
    const worker = `doomed-${death}`;
    const record = { run: config.run, worker, agent: "main", roles: ["rollout"], url: "", state: "alive", counter: 1 };
    const inFlight = death === 0 ? ["0/0/0", "0/0/1"] : ["0/0/0"];
    await store.table.insert(tableKeys.worker(config.run, worker), {
      ...record,
      seenCounter: -1,
      seenAt: 0,
      release: run.release,
      inFlight,
    });
    const instead = new Map([[0, `doomed-${death - 1}`]]);
    await store.table.update(
      death === 0 ? claimUnclaimedGroup(address, [0, 1], worker) : claimRollouts(address, [0], worker, instead),
    );
    const observer = openWorkerObserver(run);
    const isDead = () => observer.refresh(true).then(() => observer.isDead(worker));
    await expect.poll(isDead, { timeout: 60_000 }).toBe(true);
  }
  expect((await groupOf(store, 0, 0)).crashes).toEqual({ "doomed-1": 0, "doomed-2": 0, "doomed-3": 0 });
  await Promise.all([
    startWorker(store, config.run, {}, never, log),
    startWorker(store, config.run, searcher, never, log),
  ]);
  const { rollouts } = await groupOf(store, 0, 0);
  expect(rollouts[0]).toEqual({ excluded: "infrastructure: its worker crashed 3 times while it ran alone" });
  expect(rollouts[1]).toHaveProperty("reward");
});

test("a worker that has registered since the last refresh is not dead; one without a record is, once a later refresh has ended", async () => {
  const { config, store } = await openRun(log);
  const run = await readRunContext(config.run, "0.0.0", store, log);
  const observer = openWorkerObserver(run);
  await observer.refresh();
  expect(observer.isDead("newcomer")).toBe(false);
  expect(observer.isDead("ghost")).toBe(false);
  const record = { run: config.run, worker: "newcomer", agent: "main", roles: ["rollout"], url: "", state: "alive" };
  const seen = { counter: 1, seenCounter: -1, seenAt: 0, release: run.release, inFlight: [] };
  await store.table.insert(tableKeys.worker(config.run, "newcomer"), { ...record, ...seen });
  // Reads at once, although no heartbeat interval has passed: isDead was asked about an unknown worker.
  await observer.refresh();
  expect(observer.isDead("newcomer")).toBe(false);
  expect(observer.isDead("ghost")).toBe(true);
});

test("when a started run's questions are missing from the bucket, the error says what to check", async () => {
  const { config, store } = await openRun(log);
  await store.objects.delete([objectKeys.questions(config.run)]);
  await expect(readRunContext(config.run, "0.0.0", store, log)).rejects.toThrow(
    /is missing from the bucket, but the run was started: check MGRPO_BUCKET/,
  );
});

test("a worker waits for a worker of another release to leave, and is refused if it does not", async () => {
  const { config, store } = await openRun(log, {
    liveness: { heartbeatSeconds: 0.05, leaseSeconds: 0.2, pollSeconds: 0.02 },
  });
  const stop = new AbortController();
  const main = startWorker(store, config.run, {}, stop.signal, log);
  await vi.waitFor(async () => expect(await workersOf(store)).toHaveLength(1), 60_000);
  const run = await readRunContext(config.run, "9.9.9", store, log);
  await expect(startWorker(store, config.run, searcher, never, log, { run })).rejects.toThrow(
    /release 0\.0\.0.*9\.9\.9/s,
  );
  // Stopped during that wait, it ends without an error.
  const impatient = new AbortController();
  const waiting = startWorker(store, config.run, searcher, impatient.signal, log, { run });
  impatient.abort();
  await waiting;
  stop.abort();
  await main;
});

test("a worker whose store refuses connections logs one line, which names the store, and exits with code 1", async () => {
  const endpoint = `http://127.0.0.1:${await freePort()}`;
  const environment = { AWS_ENDPOINT_URL_DYNAMODB: endpoint, AWS_ENDPOINT_URL_S3: endpoint, AWS_REGION: "us-east-1" };
  const keys = { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b", MGRPO_TABLE: "t", MGRPO_BUCKET: "b" };
  const entry = fileURLToPath(builtModule("gpu-workers/worker"));
  const child = spawn(process.execPath, [entry, "--run", "r", "--agent", "main"], {
    env: { ...process.env, ...environment, ...keys, MGRPO_WORKER_TOKEN: "sixteen characters", NODE_NO_WARNINGS: "1" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
  expect(code).toBe(1);
  expect(stderr.trim().split("\n")).toHaveLength(1);
  expect(JSON.parse(stderr)).toMatchObject({
    level: "error",
    code: "store-unreachable",
    error: expect.stringContaining(endpoint),
  });
});
