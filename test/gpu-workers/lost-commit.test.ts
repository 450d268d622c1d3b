/** @file A worker whose commit loses to another worker's uses what the other has committed, not what it sampled itself. */
import { expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import type { Store } from "../../core/ports.ts";
import type { Scorer } from "../../core/scorer.ts";
import { sha256 } from "../../engine/hash.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { NO_REPORT } from "../../gpu-workers/rollouts/answer-calls.ts";
import { beginEvaluation } from "../fixtures/relay/evaluation.ts";
import { openRun, recordsOf, startWorker } from "../fixtures/relay/world.ts";

const WINNER = "of the winner";

/** The store of a worker whose commits to contested keys lose: another worker has committed the same conversation there, with WINNER as its answer if it has one. */
function losingStore(store: Store, isContested: (key: string) => boolean): Store {
  const asWinner = (body: Uint8Array) => {
    const record = JSON.parse(new TextDecoder().decode(body));
    if (record.conversation.answer !== null) record.conversation.answer = WINNER;
    return new TextEncoder().encode(JSON.stringify(record));
  };
  const commit: Store["objects"]["commit"] = async (key, body, ...rest) => {
    if (isContested(key)) await store.objects.commit(key, asWinner(body));
    return store.objects.commit(key, body, ...rest);
  };
  return { ...store, objects: { ...store.objects, commit } };
}

test("a sub-agent reports the invocation that was committed first: its answer and its hash", async () => {
  const log = createLog(() => {});
  const never = new AbortController().signal;
  const keys: string[] = [];
  const { config, store } = await openRun(log);
  const contested = losingStore(store, (key) => key.includes("/invocations/") && keys.push(key) > 0);
  await Promise.all([
    startWorker(store, config.run, {}, never, log),
    startWorker(contested, config.run, { agent: "searcher" }, never, log),
  ]);
  const { status, steps } = await recordsOf(store, config);
  expect(status).toBe("finished");
  expect(JSON.stringify(steps)).not.toContain("excluded");
  expect(keys.length).toBeGreaterThan(0);
  const reports: unknown[] = [];
  for (const { group, rollout } of [0, 1].flatMap((group) => [0, 1].map((rollout) => ({ group, rollout })))) {
    const key = objectKeys.outcome({ run: config.run, phase: "train", step: 0, group, rollout });
    const outcome = parseJson(Outcome, (await store.objects.get(key)) ?? "", key);
    if (outcome.status !== "finished") expect.fail(key);
    for (const ref of outcome.invocations) {
      const stored = (await store.objects.get(ref.key)) ?? expect.fail(ref.key);
      expect(ref.sha256).toBe(sha256(stored));
    }
    const responses = outcome.conversation.turns.flatMap((turn) => turn.responses);
    reports.push(...responses.flatMap(({ invocation, text }) => (invocation ? [text] : [])));
  }
  expect(reports).toContain(WINNER);
  expect(reports.filter((text) => text !== WINNER && text !== NO_REPORT)).toEqual([]);
});

test("an evaluation scores the outcomes that were committed first", async () => {
  const suites = [{ name: "sampled" }];
  const { store, evaluator, untilJob } = await beginEvaluation({ evaluation: { suites } });
  const scored: unknown[] = [];
  const scorer: Scorer = {
    correct(_question, { answer }) {
      scored.push(answer);
      return 0;
    },
  };
  const stop = new AbortController();
  const contested = losingStore(store, (key) => key.includes("/rollouts/"));
  const evaluating = evaluator(stop.signal, { scorerOf: () => scorer }, contested);
  await untilJob({ state: "done" });
  stop.abort();
  await evaluating;
  expect(new Set(scored)).toEqual(new Set([WINNER]));
});
