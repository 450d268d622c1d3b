/**
 * @file Every write of the functions and the workers takes effect, and the first answer to it is lost. The writer repeats it; or the functions
 * fail, and a later tick makes up for the event that they were handling. Either way the run ends with the records and the weights of an
 * undisturbed run. In one process, on the store in memory.
 */
import pRetry from "p-retry";
import { expect, test } from "vitest";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Rewards, Store, VerdictContext } from "../../core/ports.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { retryingStore } from "../../gpu-workers/retrying-store.ts";
import { judgeSpendingOf } from "../fakes/judge-spending.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { rewards } from "../fixtures/relay/rewards.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld, recordsOf, startWorker, withEvents } from "../fixtures/relay/world.ts";

const config = relayConfig({
  steps: 3,
  evaluation: { suites: [{ name: "all", questions: 3 }] },
  retention: { last: 2 },
  liveness: { heartbeatSeconds: 0.2, leaseSeconds: 30, pollSeconds: 0.01 },
});
const WORKERS = [
  { agent: "main", roles: ["rollout", "train"] },
  { agent: "searcher", roles: ["rollout", "train"] },
  { agent: "*", roles: ["eval"] },
] as const;
/** Between two scheduled ticks. */
const TICK_MS = 25;
/** For how long a worker repeats a call. */
const RETRY_SECONDS = 60;
const never = new AbortController().signal;
const silent = createLog(() => {});

type Wrap = <A extends [key: unknown, ...unknown[]], R>(
  name: string,
  write: (...args: A) => Promise<R>,
) => (...args: A) => Promise<R>;

/** The store, with every kind of write wrapped. */
const withWrites = ({ objects, table, clock }: Store, wrap: Wrap): Store => ({
  objects: { ...objects, commit: wrap("commit", objects.commit), delete: wrap("delete", objects.delete) },
  table: {
    ...table,
    insert: wrap("insert", table.insert),
    update: wrap("update", table.update),
    delete: wrap("delete", table.delete),
  },
  clock,
});

/** Calls `onWrite` with each write once it has taken effect. What it throws takes the place of the answer. */
const observed = (store: Store, onWrite: (write: string) => void): Store =>
  withWrites(store, (name, write) => async (...args) => {
    const answer = await write(...args);
    onWrite(`${name} ${JSON.stringify(args[0])}`);
    return answer;
  });

/** Loses the first answer to each write, and adds the write to `all`. */
function losingAnswers(store: Store, all: Set<string>): Store {
  const lost = new Set<string>();
  return observed(store, (write) => {
    if (lost.has(write)) return;
    lost.add(write);
    all.add(write);
    throw new MgrpoError("store-unreachable", `the answer to '${write}' was lost`, { retryable: true });
  });
}

const isLost = (error: unknown) => isMgrpoError(error, "store-unreachable");

/** Repeats a write whose answer is lost, at once. */
const repeating = (store: Store): Store =>
  withWrites(store, (_name, write) => async (...args) => {
    try {
      return await write(...args);
    } catch (error) {
      if (isLost(error)) return write(...args);
      throw error;
    }
  });

/** The operation, and the kind of object or record: `commit outcomes`, `update GROUP`. */
const kindOf = (write: string): string =>
  write.replace(/^(\w+) (?:\["|")runs\/[^/]+\/([\w-]+).*$|^(\w+) .*?"sk":"([A-Z]+).*$/s, "$1$3 $2$4");
const kindsOf = (writes: Iterable<string>): string[] => [...new Set([...writes].map(kindOf))].sort();

/** Every verdict has the same cost. `asked`: how many there were. */
function paidJudge() {
  let asked = 0;
  async function judged(score: unknown, context?: VerdictContext) {
    await context?.reserve(0.01);
    asked += 1;
    return { score: Number(score), cost: { inputTokens: 100, outputTokens: 10, usd: 0.002 } };
  }
  const judge: Rewards = {
    judge: "paid",
    correct: (question, conversation, context) => judged(rewards.correct(question, conversation), context),
    expert: (question, agent, conversation, context) => judged(rewards.expert(question, agent, conversation), context),
  };
  return { judge, asked: () => asked };
}

/** The store as a process sees it. */
interface Views {
  readonly functions: (store: Store) => Store;
  readonly workers: (store: Store) => Store;
}

/** A whole run. `failures`: errors of ticks, and the errors that events and workers log. */
async function runWith(judge: Rewards, views: Views) {
  const failures: string[] = [];
  const log = createLog((line) => void (line.includes('"level":"error"') && failures.push(line)));
  const onFailure = (error: unknown) => void failures.push(String(error));
  const memory = memoryStore();
  const store = withEvents(memory, () => functions, log);
  const { functions } = openWorld(views.functions(store), judge);
  const ticks = setInterval(() => void functions.tickAll(onFailure).catch(onFailure), TICK_MS);
  const options = { retries: 100, minTimeout: 0, shouldRetry: ({ error }: { error: Error }) => isLost(error) };
  try {
    await pRetry(() => begin(store, functions, config), options);
    const parts = { scorerOf: () => judge };
    await Promise.all(
      WORKERS.map((worker) => startWorker(views.workers(store), config.run, worker, never, log, parts)),
    );
  } finally {
    clearInterval(ticks);
    await functions.stop();
  }
  return { records: await recordsOf(memory, config), bill: await judgeSpendingOf(memory.table, config.run), failures };
}

test("if every writer repeats a write whose answer was lost, the run has the same records, and the judge is asked and paid as often", async () => {
  const [written, lost] = [new Set<string>(), new Set<string>()];
  const undisturbed = (store: Store) => observed(store, (write) => written.add(write));
  const once = paidJudge();
  const expected = await runWith(once.judge, { functions: undisturbed, workers: undisturbed });
  const judge = paidJudge();
  const disturbed = await runWith(judge.judge, {
    functions: (store) => repeating(losingAnswers(store, lost)),
    workers: (store) => retryingStore(losingAnswers(store, lost), RETRY_SECONDS, silent),
  });
  expect(expected).toMatchObject({ records: { status: "finished" }, bill: { reserved: {} }, failures: [] });
  expect(disturbed).toEqual(expected);
  expect(judge.asked()).toBe(once.asked());
  expect(kindsOf(lost)).toEqual(kindsOf(written));
  expect(kindsOf(lost)).toEqual(
    expect.arrayContaining(["commit outcomes", "delete parts", "update GROUP", "update JUDGES"]),
  );
});

test("if the functions fail when an answer is lost, later ticks make up for it, and the run has the same records", async () => {
  const lost = new Set<string>();
  const asIs = (store: Store) => store;
  const expected = await runWith(rewards, { functions: asIs, workers: asIs });
  const disturbed = await runWith(rewards, {
    functions: (store) => losingAnswers(store, lost),
    workers: (store) => retryingStore(losingAnswers(store, lost), RETRY_SECONDS, silent),
  });
  expect(expected.records).toMatchObject({ status: "finished" });
  expect(disturbed.records).toEqual(expected.records);
  expect(disturbed.failures.length).toBeGreaterThan(10);
});
