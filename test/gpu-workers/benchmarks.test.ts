/**
 * @file A benchmark as an evaluation job: encrypted questions stay encrypted in objects and the log, verdicts are paid for once, and
 * an answer without a verdict never counts as wrong. A judge's outage loses no answer: it halts the run, and the resumed run asks again.
 * Suites that cannot be scored are refused.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { scorerOf } from "../../adapters/benchmarks/scorers.ts";
import { resumeInStore } from "../../cli/local/resume-in-store.ts";
import { encrypt } from "../../core/contracts/encryption.ts";
import { objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import { RunRecord } from "../../core/contracts/records.ts";
import { Outcome } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { LanguageModel } from "../../core/language-model-ports.ts";
import type { Scorer } from "../../core/scorer.ts";
import { encryptedObjects } from "../../core/training/encrypted-objects.ts";
import { resumeRun } from "../../core/training/writes.ts";
import { createLog } from "../../gpu-workers/log.ts";
import type { memoryStore } from "../fakes/memory-store.ts";
import { judgeConfig, referenceVerdict, scriptedJudge } from "../fakes/scripted-judge.ts";
import { beginEvaluation } from "../fixtures/relay/evaluation.ts";
import { follows } from "../fixtures/relay/questions.ts";
import { relayConfig } from "../fixtures/relay/start.ts";

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
  const changes = { evaluation: { suites: [{ runs: 1, ...suite }] }, judge: judgeConfig(), limits: { attempts: 2 } };
  const { memory, config, job, evaluate } = await beginEvaluation(changes, log);
  return {
    config,
    memory,
    lines,
    job,
    /** Evaluates until the job is done. Rejects if the worker fails first. */
    async work(scorer: Scorer): Promise<EvaluationResult> {
      const done = await evaluate({ scorerOf: () => scorer });
      const key = objectKeys.evaluation(config.run, done.job);
      return parseJson(EvaluationResult, (await memory.objects.get(key)) ?? "", key);
    },
  };
}

const judgedBy = (model: LanguageModel): Scorer =>
  scorerOf({ benchmark: "xbench" }, "Compare.", () => ({ model, config: judgeConfig() })) ?? expect.fail();

test("a judged suite without criteria is refused: the run must be started again under another name", () => {
  const judge = () => ({ model: scriptedJudge(referenceVerdict), config: judgeConfig() });
  expect(() => scorerOf({ benchmark: "xbench" }, undefined, judge)).toThrow(
    /^questions.json has no criteria for a suite that a model judges: start the run again under another name$/,
  );
});

test("an encrypted benchmark leaves no prompt, answer or verdict in plain text in objects or the log", async () => {
  const { memory, work, config, job, lines } = await evaluation({
    name: "xbench",
    benchmark: "xbench",
    data: encryptedFile(),
    runs: 2,
  });
  const reason = "the judge's reason";
  const model = scriptedJudge((sent) => ({ ...referenceVerdict(sent), reason }));
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

/**
 * Sleeps of half a second or more take a hundredth of their time, and the store's clock skips the rest. If a timer fires late, its delay counts
 * once, not a hundredfold.
 */
function speedUp({ clock }: ReturnType<typeof memoryStore>): void {
  const { sleep } = clock;
  let skipped = 0;
  clock.storeTime = async () => performance.timeOrigin + performance.now() + skipped;
  clock.sleep = async (seconds, signal) => {
    if (seconds < 0.5) return sleep(seconds, signal);
    await sleep(seconds / 100, signal);
    if (!signal?.aborted) skipped += 990 * seconds;
  };
}

test("a judge's outage loses nothing and halts the run after ten minutes; the resumed run asks only for the missing verdict", async () => {
  const { memory, work, config, job } = await evaluation({
    name: "xbench",
    benchmark: "xbench",
    data: encryptedFile(),
  });
  speedUp(memory);
  const run = async () => RunRecord.parse(await memory.table.get(tableKeys.run(config.run)));
  const result = async () => memory.objects.get(objectKeys.evaluation(config.run, (await job()).job));
  const asked: string[] = [];
  const failing: { seconds: number; state: string }[] = [];
  let began: number | undefined;
  const unavailable: Scorer = {
    judge: "paid",
    async correct({ id, prompt, answer: reference }, { answer }) {
      asked.push(id);
      if (!id.endsWith(":3")) return answer === reference ? 1 : 0;
      const now = await memory.clock.storeTime();
      began ??= now;
      const state = `${(await job()).state} ${(await run()).status} ${await result()}`;
      failing.push({ seconds: (now - began) / 1000, state });
      throw new MgrpoError("endpoint-unavailable", `HTTP 503 for '${prompt}'`, { retryable: true });
    },
  };
  await expect(work(unavailable)).rejects.toThrow(
    /run 'relay' is halted: no verdict for \d+ minutes: the judge failed: HTTP 503/,
  );
  expect(new Set(failing.map(({ state }) => state))).toEqual(new Set(["leased running undefined"]));
  const [last = 0, ...earlier] = failing.map(({ seconds }) => seconds).reverse();
  expect(last).toBeGreaterThan(9 * 60);
  expect(Math.max(...earlier)).toBeLessThan(10 * 60);
  const { status, reason } = await run();
  expect(status).toBe("halted");
  expect(reason).toMatch(/^no verdict for \d+ minutes: .*Fix the cause, then resume: no rollout is lost$/);
  expect(reason).not.toContain("What follows");
  expect(await job()).toMatchObject({ state: "queued", owner: "", fence: 1 });
  expect(await result()).toBeUndefined();
  expect(asked.filter((id) => !id.endsWith(":3")).sort()).toEqual([1, 2, 4].map((n) => `xbench-2510:${n}`));

  asked.length = 0;
  await resumeInStore(memory, config, await run(), {});
  const right: Scorer = {
    judge: "paid",
    correct({ id, answer: reference }, { answer }) {
      asked.push(id);
      return answer === reference ? 1 : 0;
    },
  };
  expect(await work(right)).toMatchObject({ n: 4, lost: [] });
  expect(asked).toEqual(["xbench-2510:3"]);
}, 60_000);

test("a rollout whose text the judge refuses is lost at once, and one without a usable verdict after limits.attempts; a resumed run asks only about these again", async () => {
  const { memory, work, config, job } = await evaluation({
    name: "xbench",
    benchmark: "xbench",
    data: encryptedFile(),
  });
  speedUp(memory);
  const asked: string[] = [];
  const judge = (isWorking: boolean): Scorer => ({
    judge: "paid",
    correct: ({ id, answer: reference }, { answer }) => {
      asked.push(id);
      if (!isWorking && id.endsWith(":2"))
        throw new MgrpoError("judge-failed", "filtered", { evidence: { fault: "refused-text" } });
      if (!isWorking && id.endsWith(":3")) return 2;
      return answer === reference ? 1 : 0;
    },
  });
  const first = await work(judge(false));
  expect(first).toMatchObject({
    n: 2,
    lost: ["xbench-2510:2", "xbench-2510:3"],
    reasons: [
      "judge: the judge failed: filtered",
      "judge: the judge answered 2: a score lies in [0, 1] (unusable answers: 2)",
    ],
  });
  expect(first.questions[2]).toMatchObject({ n: 0, correct: 0 });
  expect(asked.sort()).toEqual([1, 2, 3, 3, 4].map((n) => `xbench-2510:${n}`));

  asked.length = 0;
  const resume = async () =>
    resumeInStore(memory, config, RunRecord.parse(await memory.table.get(tableKeys.run(config.run))), {});
  await resume();
  expect(await job()).toMatchObject({ state: "queued", owner: "" });
  const second = await work(judge(true));
  expect(second).toMatchObject({ n: 4, lost: [] });
  expect(asked.sort()).toEqual(["xbench-2510:2", "xbench-2510:3"]);
  const others = ({ questions }: EvaluationResult) => questions.filter((_, i) => i !== 1 && i !== 2);
  expect(others(second)).toEqual(others(first));
  await resume();
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
  const paymentRequired = new MgrpoError("endpoint-refused", "it wants to be paid first (HTTP 402)", {
    evidence: { status: 402 },
  });
  const paidOnce = scriptedJudge((sent) => {
    if (++calls > 1) throw paymentRequired;
    return referenceVerdict(sent);
  });
  await expect(work(judgedBy(paidOnce))).rejects.toThrow(`run 'relay' is halted: ${paymentRequired.message}`);
  expect(await job()).toMatchObject({ state: "queued", owner: "", fence: 1 });
  expect(await memory.objects.get(objectKeys.evaluation(config.run, (await job()).job))).toBeUndefined();

  await memory.table.update(resumeRun(config.run));
  const model = scriptedJudge(referenceVerdict);
  const result = await work(judgedBy(model));
  expect(result).toMatchObject({ n: 16, lost: [] });
  const judged = result.judged?.inputTokens ?? 0;
  expect(judged).toBe(100 * (model.requests.length + 1));
});

test("questions without a reference answer are neither scored nor lost", async () => {
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
