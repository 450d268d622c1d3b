/** @file The caller of an invocation: which time counts against its limit. */
import { expect, test } from "vitest";
import type { WorkerRecord } from "../../core/contracts/records.ts";
import type { InvocationRequest } from "../../core/contracts/rollout.ts";
import { invocationId } from "../../gpu-workers/identity.ts";
import { httpDelegation } from "../../gpu-workers/invocations/client.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { memoryStore } from "../fakes/memory-store.ts";
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

test("the time spent at a worker that was discovered during the attempt counts against the limit", async () => {
  const log = createLog(() => {});
  const config = relayConfig({ limits: { invocationSeconds: 0.4 } });
  const run = { name: "r", config, store: memoryStore(), log } as unknown as RunContext;
  const worker = {
    ...{ worker: "w1", url: "http://w1", agent: "searcher", state: "alive", roles: ["rollout"] },
  } as unknown as WorkerRecord;
  let known: WorkerRecord[] = [];
  const observer = {
    refresh: async () => {
      known = [worker];
    },
    workers: () => known,
    isDead: () => false,
  };
  // Each attempt takes 0.1 s, and the next one has to discover the worker again.
  const fetch = async () => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    known = [];
    return new Response("loading", { status: 409 });
  };
  const { invoke } = httpDelegation(run, observer, "the same secret", { fetch });
  await expect(invoke(invocationId(request), request, AbortSignal.timeout(60_000))).rejects.toMatchObject({
    code: "deadline",
    message: expect.stringMatching(
      /did not answer within 0.4 s .*; the previous attempt failed: worker 'w1' is loading/,
    ),
  });
});
