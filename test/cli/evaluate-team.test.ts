/** @file The temporary folder of an evaluation: deleted afterward. If the error names a worker's log, the logs stay. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test, vi } from "vitest";
import { evaluateLocally } from "../../cli/local/evaluate-team.ts";
import { watchForStop } from "../../cli/local/stop.ts";
import { type ErrorCode, MgrpoError } from "../../core/errors.ts";
import { baseFiles } from "../fixtures/relay/policy.ts";
import { recipe } from "../fixtures/relay/recipe.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

let code: ErrorCode;
let log = "";
vi.mock("../../cli/local/workers.ts", async (original) => ({
  ...(await original<typeof import("../../cli/local/workers.ts")>()),
  startWorkers(_specs: unknown, _environment: unknown, logs: string) {
    log = join(logs, "eval.log");
    writeFileSync(log, "why it ended");
    const failed = Promise.reject(new MgrpoError(code, `worker 'eval' ended (log: ${log})`));
    return { failed, hint() {}, async finishTraining() {}, async stop() {} };
  },
}));

async function failing(how: ErrorCode): Promise<void> {
  code = how;
  const config = relayConfig({ evaluation: { suites: [{ name: "all" }] } });
  const bases = new Map(["main", "searcher"].map((agent) => [agent, baseFiles(agent)]));
  const stop = watchForStop();
  const evaluating = evaluateLocally(config, bases, recipe.questions(1), stop, () => {}).finally(() => stop.dispose());
  await expect(evaluating).rejects.toMatchObject({ code: how });
}

test("if a worker cannot be kept alive, only its log is left in the folder", async () => {
  await failing("worker-unavailable");
  expect(readFileSync(log, "utf8")).toBe("why it ended");
  expect(readdirSync(dirname(log))).toEqual(["eval.log"]);
  rmSync(dirname(log), { recursive: true });
});

test("after any other failure, the folder is gone", async () => {
  await failing("run-halted");
  expect(existsSync(dirname(log))).toBe(false);
});
