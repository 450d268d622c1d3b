/** @file Workers under faults of a recipe's code: a tool's schema that throws, and code that would change a question. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Tool } from "../../core/ports.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { readRunContext } from "../../gpu-workers/run-context.ts";
import { tools as relayTools } from "../fixtures/relay/tools.ts";
import { openRun, startWorker } from "../fixtures/relay/world.ts";

const log = createLog(() => {});
const never = new AbortController().signal;

test("a tool whose schema throws on an agent's arguments halts the run with that reason, and no worker crashes", async () => {
  const { config, store } = await openRun(log);
  const lookup = relayTools.get("lookup") ?? expect.fail();
  const parameters = z.object({ word: z.string().transform((word) => JSON.parse(word)) });
  const tools = new Map<string, Tool>([["lookup", { ...lookup, parameters }]]);
  const ends = await Promise.allSettled([
    startWorker(store, config.run, {}, never, log),
    startWorker(store, config.run, { agent: "searcher" }, never, log, { tools }),
  ]);
  const reason =
    /run 'relay' is halted: tool 'lookup': its parameters threw SyntaxError: .*: add a Zod issue instead of throwing/;
  for (const end of ends)
    expect(end).toMatchObject({
      status: "rejected",
      reason: { code: "run-halted", message: expect.stringMatching(reason) },
    });
});

test("a worker's questions, which all its rollouts share, cannot be changed", async () => {
  const { config, store } = await openRun(log, { evaluation: { suites: [{ name: "sampled" }] } });
  const run = await readRunContext(config.run, "0.0.0", store, log);
  const [suite = expect.fail()] = config.evaluation.suites;
  const [heldOut = expect.fail()] = run.suiteQuestions(suite).questions;
  for (const question of [run.question("train-amber"), heldOut])
    expect(() => {
      question.answer = "changed";
    }).toThrow(TypeError);
});
