/** @file A worker's heartbeats continue throughout a long training step, and pause only briefly while chat templates loop. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Script } from "node:vm";
import { expect, onTestFinished, test, vi } from "vitest";
import { RunConfig } from "../../core/contracts/config.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { compiledEngine } from "../../engine/compiled/engine.ts";
import { openChatLayout } from "../../engine/tokenizer/chat-layout.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { SENTINEL } from "../../engine/tokenizer/tool-display.ts";
import { register } from "../../gpu-workers/liveness/membership.ts";
import { openWorkerObserver } from "../../gpu-workers/liveness/observer.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { OPTIONS, tinyCheckpoint } from "../engine/tiny.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld } from "../fixtures/relay/world.ts";
import { bpeFiles, QWEN_TEMPLATE } from "../fixtures/tokenizers.ts";

/** The longest time for which a graph run blocks. The heartbeats must arrive within it, however busy the machine is. */
const STEP_SECONDS = 60;
const HEARTBEAT_SECONDS = 0.2;
/** The default. */
const LEASE_SECONDS = RunConfig.shape.liveness.parse({}).leaseSeconds;
const BLOCKED = new URL("../fixtures/blocked-engine.mjs", import.meta.url).href;

/** A worker that sends heartbeats. `beats`: how many have reached the store. `stop`: ends the heartbeats. */
async function beatingWorker() {
  const config = relayConfig({ liveness: { heartbeatSeconds: HEARTBEAT_SECONDS, leaseSeconds: 2 } });
  const store = memoryStore();
  await begin(store, openWorld(store).functions, config);
  const run = await readRunContext(
    config.run,
    "0.0.0",
    store,
    createLog(() => {}),
  );
  const stopping = new AbortController();
  const registration = { agent: "main", roles: ["train"], url: "" } as const;
  const membership = await register(run, registration, openWorkerObserver(run), stopping.signal);
  const beating = membership.beat(stopping.signal);
  const key = tableKeys.worker(config.run, membership.id);
  return {
    beats: async () => Number((await store.table.get(key))?.["counter"]),
    async stop() {
      stopping.abort();
      expect(await beating).toBe("stopped");
    },
  };
}

test("heartbeats continue during a training step, however long it takes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-heartbeats-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const unblock = join(folder, "unblock");
  const blocked = { MGRPO_TEST_BLOCK_SECONDS: STEP_SECONDS, MGRPO_TEST_UNBLOCK: unblock };
  Object.assign(process.env, { NODE_OPTIONS: `--import=${BLOCKED}`, ...blocked });
  // Also in this thread, so that an engine that ran here would block it.
  await import(BLOCKED);
  const { beats, stop } = await beatingWorker();
  const trainer = await compiledEngine.openTrainer(tinyCheckpoint(), OPTIONS);
  const before = await beats();
  const batch = [{ tokens: [1, 2, 3], weights_T: Float32Array.of(0, 1, 1) }];
  let isTrained = false;
  const training = trainer.forwardBackward(batch, { kind: "linear" }, 1).finally(() => {
    isTrained = true;
  });
  // A blocked thread would send at most one before the step ends.
  await expect.poll(beats).toBeGreaterThan(before + 2);
  expect(isTrained).toBe(false);
  writeFileSync(unblock, "");
  await training;
  await trainer.close();
  await stop();
});

/**
 * Watches this process's timers. The function returned stops watching, and returns the processor time, in seconds, of their longest pause: time
 * in which other processes have the processor does not count.
 */
function watchTimers() {
  const processorSeconds = () => process.cpuUsage().user / 1e6;
  let [last, longest] = [processorSeconds(), 0];
  const look = () => {
    const now = processorSeconds();
    [last, longest] = [now, Math.max(longest, now - last)];
  };
  const timer = setInterval(look, 20);
  return () => {
    look();
    clearInterval(timer);
    return longest;
  };
}

test("heartbeats pause only briefly while the template of many conversations loops", { timeout: 180_000 }, async () => {
  const LOOP = `{%- for a in range(10000) -%}{%- for b in range(10000) -%}{%- set c = a -%}{%- endfor -%}{%- endfor -%}`;
  const template = `{%- if messages|length > 3 -%}${LOOP}{%- endif -%}${QWEN_TEMPLATE}`;
  const tokenizer = openTokenizer(bpeFiles(template));
  const layout = openChatLayout(tokenizer, { agent: "main", system: "", tools: [SENTINEL] });
  const { beats, stop } = await beatingWorker();
  const tries = vi.spyOn(Script.prototype, "runInContext");
  onTestFinished(() => tries.mockRestore());
  const longestPause = watchTimers();
  // Each conversation has a shape of its own, and all reach their second turn at once.
  const conversations = Array.from({ length: 30 }, async (_, i) => {
    layout.prompt("question");
    await Promise.resolve();
    return layout.responses(
      Array.from({ length: i + 1 }, () => ""),
      [1],
    );
  });
  const ends = await Promise.allSettled(conversations);
  for (const end of ends) expect(end).toMatchObject({ status: "rejected", reason: { code: "tokenizer-damaged" } });
  expect(longestPause()).toBeLessThan(LEASE_SECONDS);
  // One conversation and a tiny one with the same first roles are each tried twice, for a second a try. After that, nothing more is rendered.
  // If all thirty conversations were tried like this, it would take two minutes.
  const isCutOff = (i: number) => tries.mock.results[i]?.type === "throw";
  const limits = tries.mock.calls.flatMap(([, options], i) => (isCutOff(i) ? [Number(Object(options).timeout)] : []));
  expect(limits).toHaveLength(4);
  expect(limits.reduce((sum, limit) => sum + limit, 0) / 1000).toBeLessThan(LEASE_SECONDS / 2);
  const before = await beats();
  await expect.poll(beats, { timeout: 60_000 }).toBeGreaterThan(before);
  await stop();
});
