/** @file The caller of an invocation: which time counts against its limit, and what it does when a worker fails or the invocation is canceled. */
import { expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import type { Invocation, InvocationRequest } from "../../core/contracts/rollout.ts";
import { sha256 } from "../../engine/hash.ts";
import { invocationId, recordBytes } from "../../gpu-workers/identity.ts";
import { httpDelegation } from "../../gpu-workers/invocations/client.ts";
import type { WorkerNetwork } from "../../gpu-workers/invocations/network.ts";
import { cancelable } from "../../gpu-workers/limits.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { conversationOf } from "../fakes/scripted-team.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

const request: InvocationRequest = {
  address: { run: "r", phase: "train", step: 0, group: 0, rollout: 0 },
  questionId: "q",
  agent: "searcher",
  version: 0,
  call: 0,
  task: "look up amber",
  sampling: { temperature: 1, topP: 1, topK: 0 },
  closedBook: false,
};
const id = invocationId(request);

/** A caller of a searcher. `seen.known`: the workers as last read, at first none; a refresh finds all of `workers`. */
function openCaller(invocationSeconds: number, workers: readonly string[], fetch: WorkerNetwork["fetch"]) {
  const all = workers.map(
    (worker) =>
      ({
        ...{ worker, url: `http://${worker}`, agent: "searcher", state: "alive", roles: ["rollout"] },
      }) as unknown as WorkerRecord,
  );
  const config = relayConfig({ limits: { invocationSeconds } });
  const store = memoryStore();
  const run = { name: "r", config, store, log: createLog(() => {}) } as unknown as RunContext;
  const seen = { known: [] as readonly WorkerRecord[] };
  const observer = {
    refresh: async () => {
      seen.known = all;
    },
    workers: () => seen.known,
    isDead: () => false,
  };
  const { invoke } = httpDelegation(run, observer, "the same secret", { fetch });
  return { store, seen, invoke: (signal = AbortSignal.timeout(60_000)) => invoke(id, request, signal) };
}

const broken = () =>
  new TypeError("fetch failed", { cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }) });

test("the time spent at a worker that was discovered during the attempt counts against the limit", async () => {
  // Each attempt takes 0.1 s, and the next one has to discover the worker again.
  const { invoke, seen } = openCaller(0.4, ["w1"], async () => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    seen.known = [];
    return new Response("loading", { status: 409 });
  });
  await expect(invoke()).rejects.toMatchObject({
    code: "deadline",
    message: expect.stringMatching(
      /did not answer within limits\.invocationSeconds 0\.4 .*; the previous attempt failed: worker 'w1' refused for now \(409\): loading/,
    ),
  });
});

test("a result that a worker committed before its connection broke is found in the store, and no worker is asked again", async () => {
  const invocation: Invocation = {
    ...{ id, request, conversation: conversationOf(request.task, "birch") },
    trajectory: { agent: "searcher", version: 0, tokens: [1, 2], logProbs: [-1], actions: [[1, 2]] },
  };
  const key = objectKeys.invocation("r", 0, id);
  let calls = 0;
  const { invoke, store } = openCaller(60, ["w1", "w2"], async () => {
    calls += 1;
    await store.objects.commit(key, recordBytes(invocation));
    throw broken();
  });
  const ref = { id, agent: "searcher", key, sha256: sha256(recordBytes(invocation)) };
  expect(await invoke()).toEqual({ ref, answer: "birch" });
  expect(calls).toBe(1);
});

test("after a worker dies, another one is asked; if that one dies too, the invocation is abandoned", async () => {
  const asked: string[] = [];
  const { invoke } = openCaller(60, ["w1", "w2"], async (url) => {
    asked.push(new URL(url).hostname);
    throw broken();
  });
  await expect(invoke()).rejects.toMatchObject({
    code: "worker-unavailable",
    message: `2 workers of 'searcher' died while they ran invocation ${id}`,
  });
  expect(asked.sort()).toEqual(["w1", "w2"]);
});

test("a live worker whose connections break, as behind a proxy while its machine is cut off, is asked again and is not two dead ones", async () => {
  let calls = 0;
  const { invoke } = openCaller(60, ["w1"], async () => {
    if (++calls <= 2) throw broken();
    return new Response("a proxy's page", { status: 400 });
  });
  await expect(invoke()).rejects.toMatchObject({ code: "config-invalid" });
  expect(calls).toBe(3);
});

test("an invocation that is canceled, or runs out of time, is canceled at its worker too, which would otherwise keep sampling", async () => {
  const calls: string[] = [];
  const caller = new AbortController();
  const silent: WorkerNetwork["fetch"] = (url, { method, signal }) => {
    calls.push(`${method} ${url}`);
    if (method === "DELETE") return Promise.resolve(new Response(null, { status: 204 }));
    return cancelable(new Promise<never>(() => {}), signal ?? expect.fail());
  };
  const canceled = openCaller(60, ["w1"], silent).invoke(caller.signal);
  await expect.poll(() => calls).toHaveLength(1);
  caller.abort();
  await expect(canceled).rejects.toMatchObject({ code: "canceled" });
  await expect(openCaller(0.01, ["w2"], silent).invoke()).rejects.toMatchObject({ code: "deadline" });
  const both = ["w1", "w2"].flatMap((name) =>
    ["PUT", "DELETE"].map((method) => `${method} http://${name}/invocations/${id}`),
  );
  await expect.poll(() => calls.toSorted()).toEqual(both.toSorted());
});
