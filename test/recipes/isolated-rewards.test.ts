/**
 * @file The rewards of a user's recipe run in a thread. Code that blocks or exits ends the thread, not this process. Judgments, errors,
 * reservations and aborts cross the thread boundary.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, expect, test, vi } from "vitest";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Rewards, VerdictContext } from "../../core/ports.ts";
import { isolatedRewards } from "../../recipes/isolated-rewards.ts";

const folder = mkdtempSync(join(tmpdir(), "isolated-rewards-"));
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => void vi.useRealTimers());

function open(source: string): Promise<Rewards> {
  const recipe = mkdtempSync(join(folder, "a recipe-"));
  writeFileSync(join(recipe, "rewards.mjs"), source);
  return isolatedRewards({ KEY: "judge" })({ recipe, run: "any" } as RunConfig);
}

const question = (id: string) => ({ id, kind: "any", level: 1, prompt: "?", answer: "!", facts: {} });
const conversation = { answer: "!" } as never;
const contextOf = (signal: AbortSignal, reserve: VerdictContext["reserve"] = async () => {}) => ({ signal, reserve });

test("rewards that block past a deadline fail every pending call; this process continues, and the next call starts a new thread", async () => {
  const rewards = await open(`
    export const rewards = {
      correct({ id }) { for (;;) if (id !== "blocks") return 1; },
      expert: () => 1,
    };`);
  let beats = 0;
  const heartbeat = setInterval(() => beats++, 10);
  const late = { code: "judge-failed", retryable: true, message: expect.stringContaining("did not return in time") };
  const blocking = rewards.correct(question("blocks"), conversation, contextOf(AbortSignal.timeout(50)));
  const behind = rewards.correct(question("waits"), conversation, contextOf(new AbortController().signal));
  await expect(blocking).rejects.toMatchObject(late);
  await expect(behind).rejects.toMatchObject({ code: "judge-failed", retryable: true });
  clearInterval(heartbeat);
  // This process would not beat, nor come this far, if the rewards blocked it. On a busy machine it may skip beats.
  expect(beats).toBeGreaterThan(0);
  expect(await rewards.correct(question("next"), conversation)).toBe(1);
});

test("judgments, reservations and the environment cross the thread boundary, for concurrent calls too", async () => {
  const rewards = await open(`
    export const rewards = ({ environment }) => ({
      judge: "slow-" + environment.KEY,
      async correct({ id }, { answer }, { reserve }) {
        await reserve(Number(id));
        return { score: answer === "!" ? 1 : 0, votes: [{ score: 1, reason: id }] };
      },
      expert: async (_, agent, __, context) => (agent === "searcher" && context === undefined ? 0.5 : 0),
    });`);
  expect(rewards.judge).toBe("slow-judge");
  const sums: number[] = [];
  const context = contextOf(new AbortController().signal, async (usd) => void sums.push(usd));
  const verdicts = await Promise.all(["1", "2", "3"].map((id) => rewards.correct(question(id), conversation, context)));
  expect(verdicts).toEqual(["1", "2", "3"].map((reason) => ({ score: 1, votes: [{ score: 1, reason }] })));
  expect(sums.sort()).toEqual([1, 2, 3]);
  expect(await rewards.expert(question("4"), "searcher", conversation)).toBe(0.5);
});

test("an error in the rewards names their file; refused reservations and aborts cross the thread boundary; a missing recipe is refused", async () => {
  const rewards = await open(`
    export const rewards = {
      async correct({ id }, _, { signal, reserve }) {
        if (id === "throws") throw new TypeError("no such field");
        await reserve(1);
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
        return 0.25;
      },
      expert: () => 7,
    };`);
  // With fake timers, the grace period of an aborted call never ends.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const stop = new AbortController();
  const refuse = contextOf(stop.signal, async () => {
    throw new Error("the budget is spent");
  });
  const abort = contextOf(stop.signal, async () => void setImmediate(() => stop.abort()));
  const correct = (id: string, context: VerdictContext) => rewards.correct(question(id), conversation, context);
  await expect(correct("throws", refuse)).rejects.toMatchObject({
    code: "rewards-invalid",
    message: expect.stringMatching(
      /rewards\.mjs: correct\(\) for question 'throws' threw TypeError: no such field \(at .*a recipe-.*rewards\.mjs:4/,
    ),
  });
  await expect(correct("reserves", refuse)).rejects.toThrow("the budget is spent");
  expect(await correct("waits", abort)).toBe(0.25);
  await expect(rewards.expert(question("any"), "searcher", conversation)).rejects.toThrow(
    "return a number from 0 to 1",
  );
  await expect(isolatedRewards({})({ recipe: "/nowhere", run: "any" } as RunConfig)).rejects.toMatchObject({
    code: "recipe-invalid",
  });
});

test("an error whose evidence cannot be cloned crosses the thread boundary without it", async () => {
  const rewards = await open(`
    const branded = { [Symbol.for("mgrpo.error")]: true, code: "endpoint-refused", retryable: false };
    export const rewards = {
      correct() {
        throw Object.assign(new Error("no quota"), { ...branded, evidence: { status: 429, retry() {} } });
      },
      expert: () => 1,
    };`);
  await expect(rewards.correct(question("any"), conversation)).rejects.toMatchObject({
    code: "endpoint-refused",
    message: "no quota",
    evidence: undefined,
  });
});

test("a caller that retries at once after a failed opening gets the opening that later callers share", async () => {
  const openIn = isolatedRewards({});
  const config = { recipe: "/nowhere", run: "any" } as RunConfig;
  const again = openIn(config).catch(() => ({ opening: openIn(config) }));
  // A second caller of the first opening learns of its failure after the first caller does.
  await expect(openIn(config)).rejects.toMatchObject({ code: "recipe-invalid" });
  const { opening } = (await again) as { readonly opening: Promise<Rewards> };
  const later = openIn(config);
  expect(later).toBe(opening);
  await expect(later).rejects.toMatchObject({ code: "recipe-invalid" });
});

test("rewards that call process.exit fail with that reason, not with a missed deadline; the next call starts a new thread", async () => {
  const rewards = await open(`
    export const rewards = {
      correct: ({ id }) => (id === "exits" ? process.exit() : 1),
      expert: () => 1,
    };`);
  await expect(rewards.correct(question("exits"), conversation)).rejects.toMatchObject({
    code: "judge-failed",
    message: "the rewards ended their own thread: remove process.exit from their code",
  });
  expect(await rewards.correct(question("next"), conversation)).toBe(1);
});

test("a call that comes while the thread is being terminated starts a new thread", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const rewards = await open(`
    let calls = 0;
    export const rewards = { correct: () => (++calls === 1 ? 1 : 0), expert: () => 1 };`);
  expect(await rewards.correct(question("first"), conversation)).toBe(1);
  vi.advanceTimersByTime(60_000);
  expect(await rewards.correct(question("at the end of the idle time"), conversation)).toBe(1);
});

test("the thread of rewards that are opened and never called is terminated when idle", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const opened = join(mkdtempSync(join(folder, "opened-")), "times");
  const rewards = await open(`
    import { appendFileSync } from "node:fs";
    appendFileSync(${JSON.stringify(opened)}, "1");
    export const rewards = { correct: () => 1, expert: () => 1 };`);
  vi.advanceTimersByTime(60_000);
  expect(await rewards.correct(question("any"), conversation)).toBe(1);
  expect(readFileSync(opened, "utf8")).toBe("11");
});

test("a call that is aborted while its thread opens is not made", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const rewards = await open(`
    let calls = 0;
    export const rewards = { correct: () => (++calls === 1 ? 1 : 0), expert: () => 1 };`);
  vi.advanceTimersByTime(60_000);
  const stop = new AbortController();
  const aborted = rewards.correct(question("aborted"), conversation, contextOf(stop.signal));
  stop.abort(new Error("the run was stopped"));
  await expect(aborted).rejects.toThrow("the run was stopped");
  expect(await rewards.correct(question("next"), conversation)).toBe(1);
});

test("another config for the same run name has its own rewards", async () => {
  const openIn = isolatedRewards({});
  const judgeOf = async (judge: string) => {
    const recipe = mkdtempSync(join(folder, "recipe-"));
    writeFileSync(
      join(recipe, "rewards.mjs"),
      `export const rewards = { judge: "${judge}", correct: () => 1, expert: () => 1 };`,
    );
    return (await openIn({ recipe, run: "any" } as RunConfig)).judge;
  };
  expect(await judgeOf("refused")).toBe("refused");
  expect(await judgeOf("corrected")).toBe("corrected");
});

test("a call that has settled reserves nothing more", async () => {
  const rewards = await open(`
    let after;
    export const rewards = {
      correct({ id }, _, context) {
        if (id !== "settles") return after;
        const late = new Promise((resolve) => setTimeout(resolve, 50)).then(() => context.reserve(1));
        after = late.then(() => 1, ({ message }) => ({ score: 0, votes: [{ score: 0, reason: message }] }));
        return 1;
      },
      expert: () => 1,
    };`);
  const sums: number[] = [];
  const context = contextOf(new AbortController().signal, async (usd) => void sums.push(usd));
  expect(await rewards.correct(question("settles"), conversation, context)).toBe(1);
  const reason = "the call has settled, so nothing is reserved for it";
  expect(await rewards.correct(question("asks"), conversation)).toEqual({ score: 0, votes: [{ score: 0, reason }] });
  expect(sums).toEqual([]);
});

test("rewards that block while opening fail with a retryable error, and those that exit while opening, with that reason", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const blocking = open("for (;;);");
  const late = {
    code: "judge-failed",
    retryable: true,
    message: expect.stringContaining("did not open within 60 s"),
  };
  const refused = expect(blocking).rejects.toMatchObject(late);
  vi.advanceTimersByTime(60_000);
  await refused;
  await expect(open("process.exit();")).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(/process\.exit\(\) was called at/),
  });
});
