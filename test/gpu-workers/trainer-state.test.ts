/** @file What a trainer loads, when a save fails, and that an engine call that hangs while it opens, loads or saves is detected. */
import { expect, test, vi } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, Trainer } from "../../core/ports.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import type { Checkpoints } from "../../gpu-workers/checkpoints.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { openPolicyVersions } from "../../gpu-workers/rollouts/policy-versions.ts";
import type { RunContext } from "../../gpu-workers/run-context.ts";
import { TrainerState } from "../../gpu-workers/training/trainer-state.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { baseFiles, relayEngine } from "../fixtures/relay/policy.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

/** Number of calls so far that hang. */
let hung = 0;
const forever = () => {
  hung += 1;
  return new Promise<never>(() => {});
};

/** The trainer of agent `main` on an engine with the given overrides, and a clock for its time limits. */
function opened(
  change: Partial<Trainer> = {},
  engineChange: Partial<PolicyEngine> = {},
  store: Checkpoints["store"] = async () => {},
) {
  const config = relayConfig();
  const run = { name: config.run, config, store: memoryStore(), log: createLog(() => {}) } as unknown as RunContext;
  const time = { now: 0 };
  const limits = { turnSeconds: 10, trainingSeconds: 100 };
  const meter = createBusyMeter({ limits, monotonic: () => time.now });
  const loaded: string[] = [];
  const manifest = { run: "r", agent: "main", version: 0, trained: true, files: {}, stats: null, seconds: null };
  const hash = { sha256: "0".repeat(64), bytes: 1 };
  const checkpoints = {
    manifest: async (_agent: string, version: number) => ({ ...manifest, version }),
    files: async ({ version }: { version?: number }, which: string) => {
      loaded.push(`${version} ${which}`);
      return baseFiles("main");
    },
    register: async () => hash,
    store,
  } as unknown as Checkpoints;
  const engine: PolicyEngine = {
    ...relayEngine,
    openTrainer: async (...given) => ({ ...(await relayEngine.openTrainer(...given)), ...change }),
    ...engineChange,
  };
  const trainer = new TrainerState({ run, agent: "main", engine, checkpoints, worker: "w", meter });
  const versionOf = (version: number) => ({
    ...manifest,
    version,
    files: { "model.safetensors": { ...hash, sha256: String(version).repeat(64) } },
  });
  const use = (version: number) => trainer.use(versionOf(version), async () => ({ trained: true }));
  const agent = config.agents["main"] ?? expect.fail();
  const policy = openPolicyVersions("main", agent, engine, checkpoints, meter);
  return { trainer, versionOf, use, policy, loaded, meter, time };
}

test("a step starts from its version's bytes: they are loaded again unless the trainer saved them or nothing has changed them since", async () => {
  const { trainer, versionOf, use, loaded } = opened();
  await trainer.use(versionOf(1), async () => ({ trained: false }));
  const failing = trainer.use(versionOf(1), () => Promise.reject(new MgrpoError("deadline", "too slow")));
  await expect(failing).rejects.toMatchObject({ code: "deadline" });
  // The trainer held version 1 until the failed step, which may have changed its weights.
  expect(loaded).toEqual(["1 all"]);
  await use(1);
  expect(loaded).toEqual(["1 all", "1 all"]);
  const saved = { ...versionOf(2), files: await trainer.save() };
  await trainer.use(saved, async () => ({ trained: true }));
  expect(loaded).toEqual(["1 all", "1 all"]);
  // It has trained on version 2 without saving the result, so it no longer holds the bytes of version 2.
  await use(2);
  expect(loaded.slice(2)).toEqual(["2 all"]);
});

test("the reference of the KL term is loaded without the state of Adam", async () => {
  const { trainer, use, loaded } = opened();
  await use(3);
  await trainer.reference(1);
  await trainer.reference(2);
  expect(loaded).toEqual(["3 all", "1 inference", "2 inference"]);
});

test.each([0, 1])("a save fails if its file %i cannot be stored", async (bad) => {
  let stored = 0;
  const store = () => (stored++ === bad ? Promise.reject(new Error("no space")) : Promise.resolve());
  const { trainer, use } = opened({}, {}, store);
  await use(0);
  await expect(trainer.save()).rejects.toThrow("no space");
});

type Opened = ReturnType<typeof opened>;
const saves = async function* () {
  yield ["model.safetensors", Uint8Array.of(1)] as const;
  await forever();
};

const hanging: [string, Opened, (world: Opened) => Promise<unknown>][] = [
  ["openTrainer", opened({}, { openTrainer: forever }), ({ use }) => use(0)],
  ["openSampler", opened({}, { openSampler: forever }), ({ policy }) => policy.open(0)],
  ["load", opened({ load: forever }), ({ use }) => use(0).then(() => use(1))],
  ["save", opened({ save: forever }), ({ trainer, use }) => use(0).then(() => trainer.save())],
  ["saveFiles", opened({ saveFiles: saves }), ({ trainer, use }) => use(0).then(() => trainer.save())],
  [
    "load of a reference",
    opened({ load: forever }),
    ({ trainer }) => trainer.reference(0).then(() => trainer.reference(1)),
  ],
];

test.each(hanging)("a hanging %s counts as stalled after its limit and a grace period", async (_name, world, call) => {
  const before = hung;
  void call(world);
  await vi.waitFor(() => expect(hung).toBeGreaterThan(before), 60_000);
  expect(world.meter.isStalled).toBe(false);
  // The limit is 100 seconds, and the grace period 120.
  world.time.now = 221;
  expect(world.meter.isStalled).toBe(true);
});
