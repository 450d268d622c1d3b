/**
 * @file A worker that dies before a call to its Tinker server, or before it gets the response, and is restarted: the
 * server computes every pass and optimizer step once, and the weights equal those of an undisturbed run. These are
 * whole runs, in which the rollouts depend on the server's weights. If the server lost the model, or does not recognize
 * repeated calls, the step is redone on a fresh model.
 */
import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { RunConfig } from "../../../core/contracts/config.ts";
import type { PolicyEngine, Store } from "../../../core/ports.ts";
import { tinkerEngine } from "../../../engine/tinker/engine.ts";
import { readTinkerVersion, tinkerBase } from "../../../engine/tinker/version.ts";
import { openCheckpoints } from "../../../gpu-workers/checkpoints.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import { bigramEngine, bigramFiles } from "../../fakes/bigram-engine.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { SKYRL_JAX, type TinkerRules } from "../../fakes/tinker-models.ts";
import { FakeTinker } from "../../fakes/tinker-server.ts";
import { baseFiles, relayEngine } from "../../fixtures/relay/policy.ts";
import { relayConfig } from "../../fixtures/relay/start.ts";
import { tokenizerFiles } from "../../fixtures/relay/tokenizer.ts";
import { begin, openWorld, recordsOf, startWorker, withEvents } from "../../fixtures/relay/world.ts";
import { Killed } from "../../kill/mortal-store.ts";
import { OPTIONS } from "../tiny.ts";
import { bytesOf } from "./tiny-tinker.ts";

const POLICY = "tinker:http://127.0.0.1:9#tiny-qwen3";
/** 256 bytes and the chat template's two special tokens. */
const VOCABULARY = 258;
const SERVER_FILES = new Map([...tokenizerFiles(), ...bigramFiles(VOCABULARY)]);
const MAIN_FILES = bytesOf(tinkerBase(POLICY, "any", SERVER_FILES, [7, "main"]));

/** Trains bigrams. Samples the relay team's text, which depends on a digest of the bigrams' weights and optimizer state. */
const scripted: PolicyEngine = {
  openTrainer: bigramEngine.openTrainer,
  async openSampler(files, options) {
    const digest = createHash("sha256");
    for (const name of ["model.safetensors", "optimizer.safetensors"])
      digest.update(bytesOf(files).get(name) ?? "none");
    const sampler = await relayEngine.openSampler(new Map([...files, ["model.safetensors", digest.digest()]]), options);
    return {
      ...sampler,
      async sample(request, signal) {
        const sample = await sampler.sample(request, signal);
        const stops = request.stop.flat();
        const end = sample.tokens.findIndex((token) => stops.includes(token)) + 1;
        const count = end || sample.tokens.length;
        return { ...sample, tokens: sample.tokens.slice(0, count), logProbs: sample.logProbs.slice(0, count) };
      },
    };
  },
};

const limits = { turnTokens: 400, contextTokens: 4000 };
const configOf = (steps: number): RunConfig =>
  relayConfig({
    steps,
    agents: {
      main: { model: "m", policy: POLICY, delegates: ["searcher"], limits, optimizer: { maxGradientNorm: null } },
      searcher: { model: "s", policy: "recipe:relay", tools: ["lookup"], limits },
    },
    liveness: { heartbeatSeconds: 0.1, leaseSeconds: 3, pollSeconds: 0.01 },
  });

interface Death {
  readonly isFatal: (path: string) => boolean;
  /** Before the call reaches the server, or once the server has answered it. */
  readonly when: "before" | "after";
  /** The server restarts too, and loses its models. */
  readonly withServer?: boolean;
  /** The process does not die: it sleeps until its successor, which took it for dead, has published the version. */
  readonly isSleep?: boolean;
}

/** True at the n-th call from now, counted from 0. */
function nth(n: number, isCounted = (_path: string) => true): Death["isFatal"] {
  let count = 0;
  return (path) => isCounted(path) && count++ === n;
}
/**
 * The first call of that path in the trainer's session, which is the second: the first is the probe's. On a loaded machine, a worker that
 * misses its lease opens a third session before it computes anything.
 */
function inStep(wanted: string): Death["isFatal"] {
  let sessions = 0;
  return nth(0, (path) => {
    if (path === "create_session") sessions++;
    return sessions >= 2 && path === wanted;
  });
}
/** The n-th call after the first of that path, counted from 0. */
function past(wanted: string, n: number): Death["isFatal"] {
  let seen = false;
  return nth(n + 1, (path) => {
    seen ||= path === wanted;
    return seen;
  });
}

/** The process of the main agent. After its death, none of its calls reaches the server or the store. */
function mortalProcess(server: FakeTinker, store: Store, death: Death | undefined, published: () => Promise<void>) {
  let dead = false;
  let asleep = Promise.resolve();
  const alive = <A extends unknown[], R>(call: (...args: A) => Promise<R>) => {
    return async (...args: A): Promise<R> => {
      await asleep;
      if (dead) throw new Killed("dead");
      const result = await call(...args);
      await asleep;
      if (dead) throw new Killed("dead");
      return result;
    };
  };
  const all = <T extends object>(port: T): T =>
    Object.fromEntries(Object.entries(port).map(([name, call]) => [name, alive(call)])) as T;
  const engine = tinkerEngine(POLICY, {
    retrySeconds: 0,
    pauseSeconds: 0.001,
    fetch: alive(async (url: string, init: RequestInit) => {
      if (dead || !death?.isFatal(url.split("/api/v1/")[1] ?? "")) return server.fetch(url, init);
      const response = death.when === "after" ? await server.fetch(url, init) : undefined;
      if (death.withServer) server.restart();
      dead = !death.isSleep;
      if (dead) throw new Killed("dead");
      asleep = published();
      await asleep;
      return response ?? server.fetch(url, init);
    }),
  });
  return {
    engine,
    store: { ...store, objects: all(store.objects), table: all(store.table) },
    isDead: () => dead,
  };
}

interface Settings {
  readonly steps?: number;
  readonly rules?: TinkerRules;
}

/** Runs one process after the other, or beside it if that one only sleeps. Each meets its death; the last finishes the run. */
async function runWith(deaths: readonly Death[] = [], { steps = 2, rules = SKYRL_JAX }: Settings = {}) {
  const config = configOf(steps);
  const log = createLog(() => {});
  const never = new AbortController().signal;
  const server = new FakeTinker({ engine: scripted, files: SERVER_FILES, options: OPTIONS, rules });
  const memory = memoryStore();
  const { functions } = openWorld(memory);
  const store = withEvents(memory, () => functions, log);
  await begin(store, functions, config, (agent) => (agent === "main" ? MAIN_FILES : baseFiles(agent)));

  const checkpoints = openCheckpoints(config.run, memory);
  const published = () => vi.waitUntil(() => checkpoints.find("main", 1), 60_000).then(() => {});

  const live = async ([death, ...rest]: readonly Death[]): Promise<void> => {
    const own = mortalProcess(server, store, death, published);
    const engineOf = (policy: string) => (policy === POLICY ? own.engine : relayEngine);
    const life = startWorker(own.store, config.run, { agent: "main" }, never, log, { engineOf }).catch((error) => {
      if (!own.isDead()) throw error;
      return live(rest);
    });
    await Promise.all([life, ...(death?.isSleep ? [live(rest)] : [])]);
  };
  await Promise.all([live(deaths), startWorker(store, config.run, { agent: "searcher" }, never, log)]);

  const trained = [];
  for (let version = 1; version <= config.steps; version++) {
    const manifest = await checkpoints.manifest("main", version);
    if (version <= steps - config.retention.last) continue;
    const files = await checkpoints.files(manifest, "all");
    const saved = server.models.saved.get(readTinkerVersion(files).weights ?? "");
    const digest = createHash("sha256");
    for (const bytes of bytesOf(saved?.files ?? new Map()).values()) digest.update(bytes);
    trained.push({ steps: saved?.steps, weights: digest.digest("hex") });
  }
  const left = [...server.models.saved.values()].filter(({ kind }) => kind === "weights").map((one) => one.steps);
  const calls = server.calls.map(({ path }) => path);
  return { trained, left, records: await recordsOf(memory, config), calls, computed: trainingOf(server) };
}

/** What was computed in training. The probe's passes are left out: its model is the only one that computes and is also sampled. */
function trainingOf({ calls, models }: FakeTinker): string[] {
  const sampled = new Set(
    calls.flatMap(({ path, body }) => (path === "save_weights_for_sampler" ? [body["model_id"]] : [])),
  );
  const digest = (of: unknown) => createHash("sha256").update(JSON.stringify(of)).digest("hex");
  return models.computed.filter(({ model }) => !sampled.has(model)).map(({ kind, of }) => `${kind} ${digest(of)}`);
}

function expectSame(found: Awaited<ReturnType<typeof runWith>>, what: string) {
  expect(found.trained, what).toEqual(expected.trained);
  expect(found.records.steps, what).toEqual(expected.records.steps);
  expect(found.records.status, what).toBe("finished");
}

let expected: Awaited<ReturnType<typeof runWith>>;
beforeAll(async () => {
  expected = await runWith();
});

test("each version is one optimizer step ahead of the one before", () => {
  expect(expected.trained.map(({ steps }) => steps)).toEqual([1, 2]);
  expect(expected.computed.map((one) => one.split(" ")[0])).toEqual(
    Array.from({ length: 2 }, () => ["forward", "forward_backward", "optim_step"]).flat(),
  );
  expect(expected.records.status).toBe("finished");
});

test("weights that no kept version refers to are deleted on the server", async () => {
  // One of the steps has nothing to learn.
  const { left } = await runWith([], { steps: 5 });
  expect(left).toEqual([3, 4]);
});

/** Works on six items at a time. */
async function forEach<T>(items: readonly T[], work: (item: T) => Promise<void>) {
  const queue = [...items];
  const workThrough = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: 6 }, workThrough));
}

describe("a death", () => {
  /**
   * Before every call from the opening of the trainer's session to the end of the publication, after every one of them up to `save_weights`,
   * and before every 61st call of the run. Other samples and polls in the step are left out: the call that a poll waits for has reached the
   * server, so a death then is one after that call.
   */
  function deaths(): { at: number; when: Death["when"] }[] {
    const { calls } = expected;
    const [probe = 0, second = 0] = calls.flatMap((path, at) => (path === "create_session" ? [at] : []));
    const save = calls.indexOf("save_weights", second);
    // The last call of the step's publication: the version is opened for sampling.
    const last = calls.indexOf("save_weights_for_sampler", save);
    return calls.flatMap((path, at) => {
      const isInStep = at >= second && at <= last && !["asample", "retrieve_future"].includes(path);
      const before = isInStep || at % 61 === probe % 61 ? [{ at, when: "before" as const }] : [];
      return isInStep && at <= save ? [...before, { at, when: "after" as const }] : before;
    });
  }

  test("between two calls repeats nothing and loses nothing", async () => {
    const all = deaths();
    expect(all.length).toBeGreaterThan(15);
    await forEach(all, async ({ at, when }) => {
      const found = await runWith([{ isFatal: nth(at), when }]);
      const what = `${when} call ${at}, ${expected.calls[at]}`;
      expectSame(found, what);
      expect(found.computed, what).toEqual(expected.computed);
    });
  });

  test("of the process that continues a dead one's calls repeats nothing either", async () => {
    const second = [0, 2, 4, 6].map((n) => ({ isFatal: past("get_info", n), when: "after" as const }));
    await forEach(second, async (death) => {
      const found = await runWith([{ isFatal: inStep("save_weights"), when: "after" }, death]);
      expect(found.calls.filter((path) => path === "get_info")).toHaveLength(2);
      expectSame(found, "two deaths");
      expect(found.computed).toEqual(expected.computed);
    });
  });

  test("together with the server's repeats the step on a fresh model", async () => {
    const paths = ["forward", "forward_backward", "optim_step", "save_weights"];
    await forEach([...paths.entries()], async ([done, path]) => {
      const found = await runWith([{ isFatal: inStep(path), when: "before", withServer: true }]);
      expectSame(found, path);
      expect(found.computed).toEqual([...expected.computed.slice(0, done), ...expected.computed]);
    });
  });

  test("on a server that does not recognize a repeated call repeats the step on a fresh model", async () => {
    const rules = { ...SKYRL_JAX, deduplicates: false };
    const found = await runWith([{ isFatal: inStep("save_weights"), when: "before" }], { rules });
    expect(found.calls).not.toContain("get_info");
    expectSame(found, "no deduplication");
    expect(found.computed).toEqual([...expected.computed.slice(0, 3), ...expected.computed]);
  });

  test("that was only a pause: of the process that slept and its successor, one continues", async () => {
    const found = await runWith([{ isFatal: inStep("optim_step"), when: "before", isSleep: true }]);
    expectSame(found, "sleep");
    expect(found.computed).toEqual(expected.computed);
  });
});
