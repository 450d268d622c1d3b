/**
 * @file Nothing waits forever: an aborted conversation ends, a tool that hangs ends at its limit, a training step that times out is claimed
 * again, and a worker whose engine hangs stops its heartbeats.
 */
import { expect, test, vi } from "vitest";
import { tableKeys } from "../../core/contracts/keys.ts";
import { AgentRecord } from "../../core/contracts/records.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, Sampler } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { timeLimitAfter } from "../../gpu-workers/limits.ts";
import { register } from "../../gpu-workers/liveness/membership.ts";
import { openWorkerObserver } from "../../gpu-workers/liveness/observer.ts";
import { EngineProgress } from "../../gpu-workers/liveness/progress.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { callText, play, playOn, script, searchTool } from "../fakes/conversations.ts";
import { relayEngine } from "../fixtures/relay/policy.ts";
import { openRun, recordsOf, startWorker } from "../fixtures/relay/world.ts";
import { bpeFiles } from "../fixtures/tokenizers.ts";

const bpe = openTokenizer(bpeFiles());
const log = createLog(() => {});
const never = new AbortController().signal;
const forever = () => new Promise<never>(() => {});

test("an aborted conversation ends even if the sampler ignores the signal; its sequence is released once the sampler's call has ended", async () => {
  const released = vi.fn();
  const ends: ((error: Error) => void)[] = [];
  const unresponsive: Sampler = {
    sample: () => new Promise((_, reject) => ends.push(reject)),
    release: released,
    close: async () => {},
  };
  const stop = new AbortController();
  const playing = playOn(bpe, unresponsive, { signal: stop.signal });
  await vi.waitFor(() => expect(ends).toHaveLength(1), 60_000);
  stop.abort();
  await expect(playing).rejects.toMatchObject({ code: "canceled" });
  expect(released).not.toHaveBeenCalled();
  ends[0]?.(new MgrpoError("deadline", "at last"));
  await vi.waitFor(() => expect(released).toHaveBeenCalledOnce(), 60_000);
});

test("a tool that hangs is canceled at its limit, and the conversation fails with `deadline`", async () => {
  let seen: AbortSignal | undefined;
  const tools = searchTool((_query, signal) => {
    seen = signal;
    return forever();
  });
  const playing = play(bpe, script(callText("search", { query: "x" })), { tools, toolSeconds: 0.1 });
  await expect(playing).rejects.toMatchObject({
    code: "deadline",
    message: "tool 'search' took more than limits.toolSeconds 0.1",
  });
  expect(seen?.aborted).toBe(true);
});

test("a time limit longer than the maximum delay of a timer does not expire at once", async () => {
  const limit = timeLimitAfter(Promise.resolve(), 1e7);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(limit.signal.aborted).toBe(false);
  limit.end();
});

/** The relay engine, except that the first `timeouts` forward-backward calls of its trainers time out. */
function slowEngine(timeouts: number): PolicyEngine {
  let calls = 0;
  return {
    ...relayEngine,
    async openTrainer(...given) {
      const trainer = await relayEngine.openTrainer(...given);
      return {
        ...trainer,
        async forwardBackward(...batch) {
          if (calls++ < timeouts) throw new MgrpoError("deadline", "the engine did not answer", { retryable: true });
          return trainer.forwardBackward(...batch);
        },
      };
    },
  };
}

async function startTeam(timeouts: number) {
  const liveness = { heartbeatSeconds: 0.05, leaseSeconds: 0.2, pollSeconds: 0.02 };
  const { config, store, functions } = await openRun(log, { liveness });
  const workers = [{}, { agent: "searcher" }].map((options) =>
    startWorker(store, config.run, options, never, log, {
      engineOf: () => slowEngine("agent" in options ? 0 : timeouts),
    }),
  );
  return { config, store, functions, workers };
}

test("a training step that times out is claimed again, and the run ends with the weights of a run without timeouts", async () => {
  const [healthy, slow] = [await startTeam(0), await startTeam(2)];
  await Promise.all([...healthy.workers, ...slow.workers]);
  const { weights, status } = await recordsOf(slow.store, slow.config);
  expect(status).toBe("finished");
  expect(weights).toEqual((await recordsOf(healthy.store, healthy.config)).weights);
});

test("a training step that always times out halts the run after three takeovers", async () => {
  const { store, functions, workers } = await startTeam(Number.POSITIVE_INFINITY);
  await vi.waitFor(
    async () => {
      const agent = AgentRecord.parse(await store.table.get(tableKeys.agent("relay", "main")));
      expect(agent.takeovers).toBeGreaterThanOrEqual(3);
    },
    { timeout: 60_000 },
  );
  await functions.tickAll();
  const ends = await Promise.allSettled(workers);
  expect(ends.map(({ status }) => status)).toContain("rejected");
  expect(await store.table.get(tableKeys.run("relay"))).toMatchObject({ status: "halted" });
});

test("an engine call counts as stalled only a grace period after its limit; samples may wait for a training call", async () => {
  let now = 0;
  const progress = new EngineProgress({ turnSeconds: 10, trainingSeconds: 1000 }, () => now);
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const training = progress.during("training", () => answered);
  void progress.during("sampling", forever);
  now = 1000;
  expect(progress.isStalled).toBe(false);
  answer();
  await training;
  now = 1100;
  expect(progress.isStalled).toBe(false);
  now = 1131;
  expect(progress.isStalled).toBe(true);
});

test("a sample that waited for a training call has its whole limit from the end of that call", async () => {
  let now = 0;
  const progress = new EngineProgress({ turnSeconds: 300, trainingSeconds: 7200 }, () => now);
  let answer = () => {};
  const training = progress.during(
    "training",
    () =>
      new Promise<void>((resolve) => {
        answer = resolve;
      }),
  );
  void progress.during("sampling", forever);
  now = 450;
  answer();
  await training;
  now = 600;
  expect(progress.isStalled).toBe(false);
  now = 871;
  expect(progress.isStalled).toBe(true);
});

test("a canceled call that keeps running counts as stalled after the grace period, long before its limit", () => {
  let now = 0;
  const progress = new EngineProgress({ turnSeconds: 10_000, trainingSeconds: 1000 }, () => now);
  const stop = new AbortController();
  void progress.during("sampling", forever, stop.signal);
  now = 200;
  expect(progress.isStalled).toBe(false);
  stop.abort();
  now = 321;
  expect(progress.isStalled).toBe(true);
});

test("a call that was canceled before it began has only the grace period", () => {
  let now = 0;
  const progress = new EngineProgress({ turnSeconds: 10_000, trainingSeconds: 1000 }, () => now);
  void progress.during("sampling", forever, AbortSignal.abort());
  now = 120;
  expect(progress.isStalled).toBe(false);
  now = 121;
  expect(progress.isStalled).toBe(true);
});

test("the heartbeat loop of a stalled worker rejects and sends no more heartbeats", async () => {
  const { config, store } = await openRun(log, { liveness: { heartbeatSeconds: 0.02, leaseSeconds: 1 } });
  const run = await readRunContext(config.run, "0.0.0", store, log);
  let isStalled = false;
  const registration = { agent: "main", roles: ["train"], url: "" } as const;
  const membership = await register(run, registration, openWorkerObserver(run), never, () => isStalled);
  const beating = membership.beat(never);
  const counter = async () => Number((await store.table.get(tableKeys.worker(config.run, membership.id)))?.["counter"]);
  await vi.waitFor(async () => expect(await counter()).toBeGreaterThan(1), 60_000);
  isStalled = true;
  await expect(beating).rejects.toMatchObject({ code: "deadline" });
  const last = await counter();
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(await counter()).toBe(last);
});

test("a worker that fails while an engine is busy does not wait for it to close", async () => {
  const { config, store } = await openRun(log);
  const busy: PolicyEngine = {
    ...relayEngine,
    openSampler: async () => ({
      sample: () => Promise.reject(new TypeError("a bug of the engine")),
      release() {},
      close: forever,
    }),
  };
  const stop = new AbortController();
  const searcher = startWorker(store, config.run, { agent: "searcher" }, stop.signal, log);
  await expect(startWorker(store, config.run, {}, never, log, { engineOf: () => busy })).rejects.toThrow(
    "a bug of the engine",
  );
  stop.abort();
  await searcher;
});
