/** @file Errors of an encrypted evaluation, and fields of log lines, quote no question; a cancellation stays a cancellation. */
import { expect, test } from "vitest";
import { MgrpoError } from "../../../core/errors.ts";
import { logWithoutQuestions, withEncryption } from "../../../gpu-workers/evaluation/encrypted-run.ts";
import { createLog } from "../../../gpu-workers/log.ts";
import { abortError } from "../../../gpu-workers/rollouts/answer-calls.ts";
import type { RunContext } from "../../../gpu-workers/run-context.ts";
import { memoryStore } from "../../fakes/memory-store.ts";
import { relayConfig } from "../../fixtures/relay/start.ts";

const PROMPT = "Which river of the north has the most bridges?";
const set = {
  questions: [{ id: "q", kind: "k", level: 1, prompt: PROMPT, answer: "none", facts: null }],
  canary: "canary",
};
const run = { store: memoryStore(), log: createLog(() => {}) } as unknown as RunContext;

const failing = (error: Error) => withEncryption(run, set, () => Promise.reject(error));

test("a canceled evaluation rejects with `canceled`, although its cause is a DOMException, whose message has no setter", async () => {
  const stop = new AbortController();
  stop.abort();
  await expect(failing(abortError(stop.signal, "s"))).rejects.toMatchObject({ code: "canceled" });
});

test("neither an error nor its causes quote a question, whatever their class", async () => {
  const cause = new DOMException(`could not clone ${PROMPT}`, "DataCloneError");
  const error = new MgrpoError("tool-backend", `it failed on ${PROMPT}`, { cause });
  const caught = await failing(error).catch((one: unknown) => one);
  expect(caught).toBe(error);
  for (const text of [error.message, error.stack, cause.message, cause.stack]) {
    expect(text).toBeTruthy();
    expect(text).not.toContain("river");
  }
});

test("an error that is among its own causes is redacted and thrown", async () => {
  const error = new Error(`it failed on ${PROMPT}`);
  error.cause = new Error(`because of ${PROMPT}`, { cause: error });
  await expect(failing(error)).rejects.toBe(error);
  for (const text of [error.message, (error.cause as Error).message]) expect(text).not.toContain("river");
});

test("the fields of a log line outside an evaluation quote no question of an encrypted suite", () => {
  const lines: string[] = [];
  const { warn } = logWithoutQuestions({
    config: relayConfig({ evaluation: { suites: [{ name: "open" }, { name: "secret" }] } }),
    suiteQuestions: ({ name }) => (name === "secret" ? set : { questions: [] }),
    log: createLog((line) => lines.push(line)),
  });
  warn("a promise was rejected", { error: `fetch failed on ${PROMPT}`, attempts: 2 });
  expect(lines.join()).toContain("fetch failed on");
  expect(lines.join()).toContain('"attempts":2');
  expect(lines.join()).not.toContain("river");
});
