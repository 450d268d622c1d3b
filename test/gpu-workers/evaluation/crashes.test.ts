/**
 * @file An evaluation in which one rollout keeps bringing down its worker: the evaluation finishes without that rollout.
 * One process, the store in memory; a process that dies is a worker whose store calls all fail.
 */
import { expect, onTestFinished, test } from "vitest";
import { objectKeys, tableKeys, tablePrefixes } from "../../../core/contracts/keys.ts";
import { EvaluationResult } from "../../../core/contracts/messages.ts";
import { WorkerRecord } from "../../../core/contracts/records.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { PolicyEngine, Sampler, Store } from "../../../core/ports.ts";
import type { Scorer } from "../../../core/scorer.ts";
import { markDead } from "../../../core/training/writes.ts";
import type { WorkerParts } from "../../../gpu-workers/worker-process.ts";
import { racingClock } from "../../fakes/racing-clock.ts";
import { beginEvaluation } from "../../fixtures/relay/evaluation.ts";
import { relaySampling } from "../../fixtures/relay/policy.ts";
import { heldOutQuestions } from "../../fixtures/relay/questions.ts";
import { rewards } from "../../fixtures/relay/rewards.ts";
import { startWorker } from "../../fixtures/relay/world.ts";

/** Index of the question whose rollout brings down its worker. */
const POISON = 2;
const LOST = "infrastructure: its worker crashed 3 times while it ran alone";
/** More than in any evaluation that ends. */
const MAX_DEATHS = 8;

/** The relay's engine, which calls `die` when it samples for question POISON. */
const deadlyEngine = (die: () => Promise<never>): PolicyEngine => {
  const isDeadly = (name: readonly (string | number)[]) => name.join("/").includes(`evaluate/sampled/0/${POISON}/0/`);
  return relaySampling((sample) => (request, signal) => (isDeadly(request.stream) ? die() : sample(request, signal)));
};

/** The store of a process. `kill`: from then on, none of its calls takes effect. */
function processStore(store: Store): { store: Store; kill(): void } {
  let isDead = false;
  const alive =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      if (isDead) throw new Error("killed");
      return call(...args);
    };
  const each = <T extends object>(port: T): T =>
    Object.fromEntries(Object.entries(port).map(([name, call]) => [name, alive(call)])) as T;
  return {
    store: { ...store, objects: each(store.objects), table: each(store.table) },
    kill: () => {
      isDead = true;
    },
  };
}

/** Declares every worker dead. */
async function declareDead(store: Store, run: string): Promise<void> {
  const { table } = store;
  const items = await table.query(tableKeys.run(run).pk, tablePrefixes.workers);
  // A heartbeat in between wins, and its worker is declared dead by the next call.
  const changes = await Promise.all(items.map((item) => table.update(markDead(WorkerRecord.parse(item)))));
  if (changes.some(({ item }) => item?.["state"] !== "dead")) await declareDead(store, run);
}

/** Starts one worker after another until the job is done. Returns its result, and how many workers died. */
async function evaluate(partsOf: (kill: () => void, declare: () => Promise<void>) => Partial<WorkerParts>) {
  const liveness = { heartbeatSeconds: 0.05, leaseSeconds: 0.3, pollSeconds: 0.02 };
  const { log, memory, store, config, job } = await beginEvaluation({
    liveness,
    evaluation: { suites: [{ name: "sampled" }] },
  });
  const declare = () => declareDead(memory, config.run);
  let deaths = 0;
  while ((await job()).state !== "done") {
    if (deaths > MAX_DEATHS) expect.fail("the evaluation does not end");
    const own = processStore(store);
    const stop = new AbortController();
    const options = { agent: "*", roles: ["eval"] } as const;
    const worker = startWorker(own.store, config.run, options, stop.signal, log, partsOf(own.kill, declare));
    const died = worker.then(
      () => expect.fail("the worker ended"),
      () => true,
    );
    let isDead = false;
    while (!isDead && (await job()).state !== "done")
      isDead = await Promise.race([died, store.clock.sleep(0.01).then(() => false)]);
    if (isDead) deaths += 1;
    else {
      stop.abort();
      await worker;
      died.catch(() => {});
    }
  }
  const done = await job();
  const bytes = await memory.objects.get(objectKeys.evaluation(config.run, done.job));
  return { deaths, done, result: EvaluationResult.parse(JSON.parse(new TextDecoder().decode(bytes))) };
}

const poisoned = heldOutQuestions[POISON]?.id;

test.each([
  ["an unknown error", new RangeError("engine bug")],
  ["a fault of a tool that no retry fixes", new MgrpoError("not-found", "replay: no stored response of 'search'")],
])(
  "a rollout that makes its worker fail with %s is abandoned after one failure alongside others and three alone",
  async (_what, error) => {
    const engine = deadlyEngine(() => Promise.reject(error));
    const { deaths, done, result } = await evaluate(() => ({ engineOf: () => engine }));
    expect(deaths).toBe(4);
    expect(result).toMatchObject({ n: 5, lost: [poisoned], reasons: [LOST] });
    expect(done).toMatchObject({ state: "done", n: 5 });
    expect(done).not.toHaveProperty("suspects");
  },
  60_000,
);

const never = () => new Promise<never>(() => {});

/** A sampler whose every call hangs once `hangs` has grown: the rollouts alongside the one that hangs stay in flight. */
function hangingWithPoison(sampler: Sampler, hangs: () => number): Sampler {
  const before = hangs();
  return {
    ...sampler,
    sample: (request, signal) => (hangs() > before ? never() : sampler.sample(request, signal)),
  };
}

test("a rollout that makes the engine hang is abandoned after one hang alongside others and three alone", async () => {
  const clock = racingClock();
  onTestFinished(() => clock.restore());
  let hangs = 0;
  const deadly = deadlyEngine(() => {
    hangs += 1;
    clock.race();
    return never();
  });
  const engine: PolicyEngine = {
    ...deadly,
    openSampler: async (...args) => hangingWithPoison(await deadly.openSampler(...args), () => hangs),
  };
  const { result } = await evaluate(() => {
    clock.stop();
    return { engineOf: () => engine };
  });
  // After a hang, the worker ends, or is declared dead first and comes back, since the clock races for observers too.
  // Both count as a crash.
  expect(hangs).toBe(4);
  expect(result).toMatchObject({ n: 5, lost: [poisoned], reasons: [LOST] });
}, 60_000);

test("a rollout during which its worker is declared dead is abandoned, although the worker comes back", async () => {
  let losses = 0;
  const { deaths, result } = await evaluate((_kill, declare) => ({
    engineOf: () =>
      deadlyEngine(async () => {
        if (losses++ > MAX_DEATHS) expect.fail("the evaluation does not end");
        await declare();
        return never();
      }),
  }));
  expect(deaths).toBe(0);
  // The first loss counts as one alone if the other rollouts end before the worker notices.
  expect([3, 4]).toContain(losses);
  expect(result).toMatchObject({ n: 5, lost: [poisoned], reasons: [LOST] });
}, 60_000);

test.each<[string, (die: () => Promise<never>) => Partial<WorkerParts>]>([
  ["sampling", (die) => ({ engineOf: () => deadlyEngine(die) })],
  [
    "scoring",
    (die) => {
      const scorer: Scorer = {
        correct: (question, ...rest) => (question.id === poisoned ? die() : rewards.correct(question, ...rest)),
      };
      return { scorerOf: () => scorer };
    },
  ],
])(
  "a rollout that kills its worker while %s is abandoned after five workers",
  async (_what, parts) => {
    const { deaths, result } = await evaluate((kill) =>
      parts(() => {
        kill();
        return never();
      }),
    );
    // The first worker does not record what it has in flight, the second does, and then the rollout runs alone three times.
    expect(deaths).toBe(5);
    expect(result).toMatchObject({ n: 5, lost: [poisoned], reasons: [LOST] });
  },
  60_000,
);
