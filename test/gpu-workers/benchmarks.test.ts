/**
 * @file A benchmark as an evaluation job: encrypted questions stay encrypted wherever anything is written, verdicts are paid for once, and
 * an answer that a judge's outage left unscored is never wrong: it is judged again.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { scorerOf } from "../../adapters/benchmarks/scorers.ts";
import { reopenLost } from "../../cli/local/reopen-lost.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import { encrypt } from "../../core/contracts/encryption.ts";
import { objectKeys, tableKeys, tablePrefixes } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { JobRecord } from "../../core/contracts/records.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { LanguageModel } from "../../core/language-model-ports.ts";
import type { Scorer } from "../../core/scorer.ts";
import { encryptedObjects } from "../../core/training/encrypted-objects.ts";
import { resumeRun } from "../../core/training/writes.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { holdsReference, judgeConfig, scriptedJudge } from "../fakes/scripted-judge.ts";
import { follows } from "../fixtures/relay/questions.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { begin, openWorld, startWorker, withEvents } from "../fixtures/relay/world.ts";

const folder = mkdtempSync(join(tmpdir(), "benchmarks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const CANARY = "canary GUID xbench-DeepSearch-2510:00000000-0000-4000-8000-000000000000";
const WORDS = ["delta", "fjord", "heath", "jetty"];

function encryptedFile(): string {
  const file = join(folder, "xbench.csv");
  const rows = WORDS.map((word, i) => {
    const [prompt, answer] = [`What follows ${word}?`, follows(word)].map((text) => encrypt(text, CANARY));
    return `${i + 1},${prompt},${answer},${CANARY}`;
  });
  writeFileSync(file, ["id,prompt,answer,canary", ...rows, ""].join("\n"));
  return file;
}

/** A run with one suite. Each call of `work` starts a worker. */
async function evaluation(suite: object) {
  const lines: string[] = [];
  const log = createLog((line) => lines.push(line));
  const memory = memoryStore();
  const { functions } = openWorld(memory);
  const store = withEvents(memory, () => functions, log);
  const config: RunConfig = relayConfig({
    evaluation: { suites: [{ runs: 1, ...suite }] },
    judge: judgeConfig(),
    limits: { attempts: 2 },
  });
  await begin(store, functions, config);
  const job = async () => {
    const [item] = await memory.table.query(tableKeys.run(config.run).pk, tablePrefixes.jobs);
    return JobRecord.parse(item);
  };
  return {
    config,
    memory,
    lines,
    job,
    /** Works until the job is done; rejects when the worker fails before. */
    async work(scorer: Scorer): Promise<EvaluationResult> {
      const stop = new AbortController();
      const options = { agent: "*", roles: ["eval"] as const };
      const worker = startWorker(store, config.run, options, stop.signal, log, { scorerOf: () => scorer });
      const ended = worker.then(() => "ended");
      while ((await job()).state !== "done") {
        if ((await Promise.race([ended, store.clock.sleep(0.01)])) === "ended") break;
      }
      stop.abort();
      await ended;
      const key = objectKeys.evaluation(config.run, (await job()).job);
      return parseJson(EvaluationResult, (await memory.objects.get(key)) ?? "", key);
    },
  };
}

const judgedBy = (model: LanguageModel): Scorer =>
  scorerOf({ benchmark: "xbench" }, "Compare.", () => ({ model, config: judgeConfig() })) ?? expect.fail();

test("a judged suite without criteria is refused, as damaged", () => {
  const judge = () => ({ model: scriptedJudge(holdsReference), config: judgeConfig() });
  expect(() => scorerOf({ benchmark: "xbench" }, undefined, judge)).toThrow(
    /^questions.json has no criteria for a suite that a model judges: start the run again$/,
  );
});

test("an encrypted benchmark leaves no prompt, answer or verdict in plain text, neither in the store nor in a log", async () => {
  const { memory, work, config, job, lines } = await evaluation({
    name: "xbench",
    benchmark: "xbench",
    data: encryptedFile(),
    runs: 2,
  });
  const reason = "the judge's reason";
  const model = scriptedJudge((sent) => ({ ...holdsReference(sent), reason }));
  const { n, lost, judged, questions } = await work(judgedBy(model));
  expect([n, lost, questions.map(({ question }) => question)]).toEqual([
    ...[8, []],
    WORDS.map((_, i) => `xbench-2510:${i + 1}`),
  ]);
  expect(judged).toEqual({
    inputTokens: 100 * model.requests.length,
    outputTokens: 10 * model.requests.length,
    usd: null,
  });
  // The judge is sent plain text.
  expect(model.requests[0]?.messages[1]?.content).toContain("What follows");

  const text = async (key: string) => new TextDecoder().decode(await memory.objects.get(key));
  const keys = memory.objects.keys().filter((key) => /\/(evaluations|invocations|verdicts)\//.test(key));
  expect(keys.filter((key) => key.includes("/rollouts/"))).toHaveLength(8);
  const { suites } = JSON.parse(await text(objectKeys.questions(config.run))) as { suites: object };
  const written = [JSON.stringify(suites), lines.join("\n"), ...(await Promise.all(keys.map(text)))].join("\n");
  for (const plain of ["What follows", ...WORDS, ...WORDS.map(follows), reason]) expect(written).not.toContain(plain);

  // The canary decrypts them.
  const opened = encryptedObjects(memory.objects, CANARY);
  const address = { run: config.run, phase: `eval:${(await job()).job}`, step: 0, group: 0, rollout: 0 };
  const key = objectKeys.outcome(address);
  const outcome = parseJson(Outcome, (await opened.get(key)) ?? "", key);
  expect(outcome).toMatchObject({ status: "finished", conversation: { prompt: "What follows delta?" } });
  const verdicts = keys.filter((one) => one.includes("/verdicts/")).map((one) => opened.get(one));
  expect((await Promise.all(verdicts)).map((bytes) => new TextDecoder().decode(bytes)).join("\n")).toContain(reason);
});

test("only answers lost to a judge's outage are judged again", async () => {
  const { memory, work, config, job } = await evaluation({
    name: "xbench",
    benchmark: "xbench",
    data: encryptedFile(),
  });
  const asked: string[] = [];
  const judge = (out: boolean): Scorer => ({
    judge: "paid",
    correct: ({ id, answer: reference }, { answer }) => {
      asked.push(id);
      if (out && id.endsWith(":3")) throw new MgrpoError("endpoint-unavailable", "HTTP 503", { retryable: true });
      return answer === reference ? 1 : 0;
    },
  });
  const first = await work(judge(true));
  expect(first).toMatchObject({ n: 3, lost: ["xbench-2510:3"], reasons: ["the judge failed: HTTP 503"] });
  expect(first.questions[2]).toMatchObject({ n: 0, correct: 0 });

  asked.length = 0;
  await reopenLost(memory, config);
  expect(await job()).toMatchObject({ state: "queued", owner: "" });
  const second = await work(judge(false));
  expect(second).toMatchObject({ n: 4, lost: [] });
  expect(asked).toEqual(["xbench-2510:3"]);
  expect(second.questions.filter((_, i) => i !== 2)).toEqual(first.questions.filter((_, i) => i !== 2));
  await reopenLost(memory, config);
  expect(await job()).toMatchObject({ state: "done", n: 4 });
});

test("a judge that demands payment halts the run with its message; the job continues once it is paid", async () => {
  const { memory, work, config, job } = await evaluation({
    name: "xbench",
    benchmark: "xbench",
    data: encryptedFile(),
    runs: 4,
  });
  let calls = 0;
  const empty = new MgrpoError("endpoint-refused", "it wants to be paid first (HTTP 402)", {
    evidence: { status: 402 },
  });
  const paidOnce = scriptedJudge((sent) => {
    if (++calls > 1) throw empty;
    return holdsReference(sent);
  });
  await expect(work(judgedBy(paidOnce))).rejects.toThrow(`run 'relay' is halted: ${empty.message}`);
  expect(await job()).toMatchObject({ state: "queued", owner: "", fence: 1 });
  expect(await memory.objects.get(objectKeys.evaluation(config.run, (await job()).job))).toBeUndefined();

  await memory.table.update(resumeRun(config.run));
  const model = scriptedJudge(holdsReference);
  const result = await work(judgedBy(model));
  expect(result).toMatchObject({ n: 16, lost: [] });
  const judged = result.judged?.inputTokens ?? 0;
  expect(judged).toBe(100 * (model.requests.length + 1));
});

test("a split without answers is asked but counts nowhere", async () => {
  const file = join(folder, "metadata.jsonl");
  const task = { task_id: "t1", Question: "What follows amber?", Level: 1, "Final answer": "?", file_name: "" };
  writeFileSync(file, JSON.stringify(task));
  const { work } = await evaluation({ name: "gaia", benchmark: "gaia", data: file });
  const scorer = scorerOf({ benchmark: "gaia" }, undefined, () => expect.fail()) ?? expect.fail();
  expect(await work(scorer)).toMatchObject({ n: 0, lost: [], questions: [{ question: "gaia:t1", n: 0 }] });
});

test.each([
  [{ benchmark: "gaia" }, /a benchmark and the path of its data go together/],
  [
    { benchmark: "gaia", data: "d", criteria: "c" },
    /applies only to a benchmark that a model judges \(xbench, webwalkerqa\)/,
  ],
  [{ benchmark: "xbench", data: "d" }, /suite 's' needs a judge: set judge\.model/],
  [{ benchmark: "hle", data: "d" }, /benchmark/],
])("an unusable suite is refused: %j", (suite, line) => {
  expect(() => relayConfig({ evaluation: { suites: [{ name: "s", ...suite }] } })).toThrow(line);
});
