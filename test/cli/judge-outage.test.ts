/** @file A judge outage that halts an evaluation: a watch tries again later, as after lost answers; any other halt ends the watch. */
import { expect, test } from "vitest";
import { followJobs } from "../../cli/local/evaluate-team.ts";
import { type WatchProblem, watchCheckpoints } from "../../cli/watch.ts";
import type { FileState } from "../../core/checkpoint-source.ts";
import { MgrpoError } from "../../core/errors.ts";
import { haltRun } from "../../core/training/halt-run.ts";
import { decideAfterFailure } from "../../core/training/judge-failures.ts";
import { MARKER } from "../../core/training/watched-checkpoints.ts";
import { endRun } from "../../core/training/writes.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld } from "../fixtures/relay/world.ts";

/** The error with which `followJobs` ends once the judge of its evaluation has failed with `cause` for `failingSeconds`. */
async function endAfter(cause: MgrpoError, failingSeconds: number): Promise<MgrpoError> {
  const store = memoryStore();
  const config = relayConfig({ evaluation: { suites: [{ name: "sampled" }] } });
  await begin(store, openWorld(store).functions, config);
  const evidence = { fault: "outage", unusable: 0, failingSeconds };
  const failure = new MgrpoError("judge-failed", cause.message, { retryable: true, cause, evidence });
  const decision = decideAfterFailure(config, failure);
  if (decision.kind !== "halt") throw new Error(decision.kind);
  await haltRun(store.table, config.run, decision.halt);
  return followJobs(store, config, new AbortController().signal, () => {}).then(
    () => expect.fail("not halted"),
    (error: MgrpoError) => error,
  );
}

/** Watches one checkpoint over four polls. Its first evaluation ends with the error. */
async function watched(first: MgrpoError) {
  const files = ["config.json", "model.safetensors", "tokenizer.json", MARKER];
  const listing = new Map([["a", new Map(files.map((name): [string, FileState] => [name, { bytes: 1, stamp: "" }]))]]);
  const stop = new AbortController();
  const reports: WatchProblem[] = [];
  let [polls, evaluations] = [0, 0];
  const list = async () => {
    if (++polls === 4) stop.abort();
    return listing;
  };
  const evaluate = async () => {
    if (++evaluations === 1) throw first;
  };
  const source = { list, read: async () => new Map() };
  await watchCheckpoints(source, 0, stop.signal, evaluate, (line) => reports.push(line));
  return { evaluations, reports };
}

test("after an outage of ten minutes, a watch reports it and evaluates the checkpoint again", async () => {
  const outage = new MgrpoError("endpoint-unavailable", "HTTP 503", { retryable: true });
  const error = await endAfter(outage, 601);
  expect(error).toMatchObject({ code: "run-halted", retryable: true });
  expect(await watched(error)).toEqual({
    evaluations: 2,
    reports: [expect.objectContaining({ kind: "retry", message: expect.stringContaining("HTTP 503") })],
  });
});

test("a halt that an older release recorded without a code is not retryable", async () => {
  const store = memoryStore();
  const config = relayConfig({ evaluation: { suites: [{ name: "sampled" }] } });
  await begin(store, openWorld(store).functions, config);
  const { set = [], ...change } = endRun(config.run, {
    code: "judge-outage",
    reason: "no verdict for 10 minutes: HTTP 503",
  });
  await store.table.update({ ...change, set: set.filter(([[name]]) => name !== "haltCode") });
  const following = followJobs(store, config, new AbortController().signal, () => {});
  await expect(following).rejects.toMatchObject({ code: "run-halted", retryable: false });
});

test("a wrong judge key ends the watch", async () => {
  const error = await endAfter(new MgrpoError("endpoint-refused", "HTTP 401"), 0);
  expect(error).toMatchObject({ code: "run-halted", retryable: false, message: "HTTP 401" });
  await expect(watched(error)).rejects.toThrow("HTTP 401");
});
