/**
 * @file Models behind tools: what a call may cost is known before the model is asked, and no page makes it cost more. Also: models that
 * refuse temperature 0, and what a call costs or tells the agent if its requests are cut off, or if its answer is withheld or unfinished.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { OpenModel } from "../../../../adapters/tools/web/open.ts";
import { openToolBudget } from "../../../../core/conversation/tool-budget.ts";
import { MgrpoError } from "../../../../core/errors.ts";
import type { CompletionRequest } from "../../../../core/ports.ts";
import { memoryStore } from "../../../fakes/memory-store.ts";
import { runRecord } from "../../../fakes/scripted-team.ts";
import { serveWorld, type WorldServer } from "../../../world/server.ts";
import { openWorldTools } from "../../../world/tools.ts";

let world: WorldServer;
beforeAll(async () => {
  world = await serveWorld();
});
afterAll(() => world.close());

/** Costs 1 dollar per million input tokens and 10 per million output tokens, of which a call may generate 100. */
const model = {
  model: "openai:http://127.0.0.1:1/v1#reader",
  maxTokens: 100,
  usdPerMillionTokens: { input: 1, output: 10 },
};

async function openTools(settings: object = {}, store = memoryStore(), wait = async () => {}) {
  const requests: CompletionRequest[] = [];
  const openModel: OpenModel = async () => ({
    async complete(request) {
      requests.push(request);
      await wait();
      return { text: "towns", usage: { inputTokens: 200, outputTokens: 10 } };
    },
  });
  const tools = await openWorldTools(world, { extract: model, reason: model, ...settings }, { store, openModel });
  return { ...tools, requests };
}

const page = (path: string) => ({ url: world.origin + path, goal: "towns" });
const withMicroUsd = (microUsd: number) => ({ budget: openToolBudget({ calls: null, microUsd }) });

test("a text that may cost more than is left is not sent to the model", async () => {
  const { call, close, requests } = await openTools();
  const poor = withMicroUsd(1000);
  expect(await call("visit", page("/wiki/Alby"), poor)).toMatch(
    /\n\nthe remaining budget does not cover this call: it may cost \$0\.00\d+, and \$0\.001 is left$/,
  );
  expect(await call("reason", { problem: "2 + 2" }, poor)).toMatch(
    /^the remaining budget does not cover this call: it may cost/,
  );
  expect(requests).toEqual([]);
  expect(poor.budget.spent()).toEqual({ calls: 2, microUsd: 0 });
  const rich = withMicroUsd(10_000);
  expect(await call("visit", page("/wiki/Alby"), rich)).toMatch(/\n\ntowns$/);
  expect(rich.budget.spent()).toEqual({ calls: 1, microUsd: 300 });
  await close();
});

test("a model that refuses temperature 0 is asked again without a temperature, and later requests have none", async () => {
  const temperatures: (number | undefined)[] = [];
  const openModel: OpenModel = async () => ({
    async complete({ temperature }) {
      temperatures.push(temperature);
      if (temperature === undefined) return { text: "4", usage: { inputTokens: 200, outputTokens: 10 } };
      const message = `model 'gpt-5-mini' refused the request (HTTP 400: Unsupported value: 'temperature' does not support 0)`;
      throw new MgrpoError("endpoint-refused", message, { retryable: false, evidence: { status: 400 } });
    },
  });
  const tools = await openWorldTools(world, { reason: model }, { store: memoryStore(), openModel });
  expect(await tools.call("reason", { problem: "2 + 2" }, {})).toBe("4");
  expect(await tools.call("reason", { problem: "1 + 3" }, {})).toBe("4");
  expect(temperatures).toEqual([0, undefined, undefined]);
  await tools.close();
});

test("a page that turns out to cost more than is left is not sent to the model", async () => {
  const { call, close, requests } = await openTools();
  const context = withMicroUsd(1300);
  expect(await call("visit", page("/wiki/Towns_of_Arlandia"), context)).toMatch(
    /\n\nthe remaining budget does not cover this call: it may cost \$0\.00\d+, and \$0\.0013 is left$/,
  );
  expect(requests).toEqual([]);
  await close();
});

test.each([
  [0, 1],
  [1, 0],
])(
  "the calls of one turn reserve what they may cost, in the order in which they are made, whichever ends first",
  async (...order) => {
    const ends: (() => void)[] = [];
    const { call, close } = await openTools({}, memoryStore(), () => new Promise((end) => ends.push(end)));
    // Room for two calls at their maximum, 1000 to 1100 micro-dollars each, and a bit.
    const { budget } = withMicroUsd(2500);
    const turn = ["2 + 2", "3 + 3", "4 + 4"].map((problem) => call("reason", { problem }, { budget }));
    await expect.poll(() => ends).toHaveLength(2);
    for (const i of order) {
      ends[i]?.();
      expect(await turn[i]).toBe("towns");
    }
    expect(await turn[2]).toMatch(
      /^the remaining budget does not .* it may cost \$0\.001\d*, and \$0\.000\d+ is left$/,
    );
    budget.endTurn();
    expect(budget.spent()).toEqual({ calls: 3, microUsd: 600 });
    const next = call("reason", { problem: "4 + 4" }, { budget });
    await expect.poll(() => ends).toHaveLength(3);
    ends[2]?.();
    expect(await next).toBe("towns");
    await close();
  },
);

test("an extraction reserves the price of the longest page until the turn ends, since the length of its own page is not known yet", async () => {
  const { call, close } = await openTools();
  // 63,000 tokens at 1 micro-dollar for the longest page, about 1200 for the rest of the prompt and the answer.
  const { budget } = withMicroUsd(65_000);
  const visit = (path: string) => call("visit", page(path), { budget });
  const [one, other] = await Promise.all([visit("/wiki/Alby"), visit("/wiki/Corby")]);
  expect(one).toMatch(/\n\ntowns$/);
  expect(other).toMatch(
    /\n\nthe remaining budget does not cover this call: it may cost \$0\.0012, and \$0\.000\d+ is left$/,
  );
  budget.endTurn();
  expect(await visit("/wiki/Corby")).toMatch(/\n\ntowns$/);
  expect(budget.spent()).toEqual({ calls: 3, microUsd: 600 });
  await close();
});

test("a run whose budget has no room for a text is halted before the model is asked", async () => {
  const store = memoryStore();
  await store.table.insert({ pk: "RUN#web", sk: "RUN" }, runRecord({ run: "web" }));
  const { call, close, requests } = await openTools({ budget: { run: { usd: 0.001 } } }, store);
  await expect(call("reason", { problem: "2 + 2" })).rejects.toMatchObject({ code: "run-halted" });
  expect(requests).toEqual([]);
  expect(await store.table.get({ pk: "RUN#web", sk: "TOOLS" })).toMatchObject({ microUsd: 0 });
  await close();
});

test("concurrent calls reserve what they may cost: together they do not exceed the run's limit", async () => {
  const store = memoryStore();
  await store.table.insert({ pk: "RUN#web", sk: "RUN" }, runRecord({ run: "web" }));
  // Room for one call at its maximum, 1000 to 1100 micro-dollars, and a bit.
  const { call, close, requests } = await openTools({ budget: { run: { usd: 0.0015 } } }, store);
  const both = await Promise.allSettled(["2 + 2", "3 + 3"].map((problem) => call("reason", { problem })));
  expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  expect(requests.length).toBe(1);
  expect(await store.table.get({ pk: "RUN#web", sk: "TOOLS" })).toMatchObject({ calls: 2, microUsd: 300 });
  await close();
});

test("the run is charged the maximum for requests that were cut off; the rollout's budget does not depend on timing", async () => {
  const store = memoryStore();
  let isDown = true;
  const openModel: OpenModel = async () => ({
    async complete({ onUnknownUsage }) {
      onUnknownUsage?.();
      onUnknownUsage?.();
      if (isDown) throw new MgrpoError("endpoint-unavailable", "too slow", { retryable: true });
      return { text: "4", usage: { inputTokens: 200, outputTokens: 10 } };
    },
  });
  const { call, close } = await openWorldTools(world, { reason: model }, { store, openModel });
  const microUsd = async () => Number((await store.table.get({ pk: "RUN#web", sk: "TOOLS" }))?.["microUsd"]);
  const context = withMicroUsd(100_000);
  await expect(call("reason", { problem: "2 + 2" }, context)).rejects.toMatchObject({ code: "tool-backend" });
  const twice = await microUsd();
  // 100 output tokens at 10 micro-dollars each, and fewer than 100 prompt tokens at 1 each.
  expect(twice).toBeGreaterThan(2 * 1000);
  expect(twice).toBeLessThan(2 * 1100);
  expect(context.budget.spent()).toEqual({ calls: 1, microUsd: 0 });
  isDown = false;
  expect(await call("reason", { problem: "2 + 2" }, context)).toBe("4");
  expect(await microUsd()).toBe(2 * twice + 300);
  expect(context.budget.spent()).toEqual({ calls: 2, microUsd: 300 });
  await close();
});

test("an answer after requests that were cut off is counted and stored, even if those exceed the run's limit", async () => {
  const store = memoryStore();
  await store.table.insert({ pk: "RUN#web", sk: "RUN" }, runRecord({ run: "web" }));
  let asked = 0;
  const openModel: OpenModel = async () => ({
    async complete({ onUnknownUsage }) {
      asked += 1;
      onUnknownUsage?.();
      onUnknownUsage?.();
      return { text: "4", usage: { inputTokens: 200, outputTokens: 10 } };
    },
  });
  const settings = { reason: model, budget: { run: { usd: 0.002 } } };
  const { call, close } = await openWorldTools(world, settings, { store, openModel });
  await expect(call("reason", { problem: "2 + 2" })).rejects.toMatchObject({ code: "run-halted" });
  // Two requests at their maximum, more than 1000 micro-dollars each, and the answer.
  expect(Number((await store.table.get({ pk: "RUN#web", sk: "TOOLS" }))?.["microUsd"])).toBeGreaterThan(2 * 1000 + 300);
  expect(await call("reason", { problem: "2 + 2" })).toBe("4");
  expect(asked).toBe(1);
  await close();
});

test("an answer that the server's filter withheld is paid for", async () => {
  const store = memoryStore();
  const evidence = { contentRefusal: "filtered", usage: { inputTokens: 200, outputTokens: 10 } };
  const openModel: OpenModel = async () => ({
    complete: () => Promise.reject(new MgrpoError("endpoint-refused", "withheld", { evidence })),
  });
  const { call, close } = await openWorldTools(world, { reason: model }, { store, openModel });
  expect(await call("reason", { problem: "2 + 2" })).toBe("(the model's content filter refused this text)");
  expect(await store.table.get({ pk: "RUN#web", sk: "TOOLS" })).toMatchObject({ microUsd: 300 });
  await close();
});

test("an answer that the model did not finish is reported to the agent", async () => {
  const evidence = { status: 400, answerFault: "unfinished" };
  const openModel: OpenModel = async () => ({
    complete: () => Promise.reject(new MgrpoError("endpoint-refused", "withheld", { evidence })),
  });
  const { call, close } = await openWorldTools(world, { reason: model }, { openModel });
  expect(await call("reason", { problem: "2 + 2" })).toBe("(the model used all its tokens before it answered)");
  await close();
});

test("the title of a page is cut before it reaches the model", async () => {
  const { call, close, requests } = await openTools();
  await call("visit", page("/long-title"));
  expect(requests[0]?.messages[1]?.content.length).toBeLessThan(1000);
  await close();
});

test.each([
  ["<think>\nAlby?\n</think>\n\nAlby", 10, "Alby"],
  ["Alby? </think> Alby", 10, "Alby"],
  ["It thinks between <think> and </think>.", 10, "It thinks between <think> and </think>."],
  ["<think>Alby?</think>It ends with </think>.", 10, "It ends with </think>."],
  ["<think>\nAlby?", 100, "(the model used all its tokens before it answered)"],
  ["", 100, "(the model used all its tokens before it answered)"],
  ["<think>\n</think>\n", 10, "(the model gave no answer)"],
])("the agent reads what follows the model's thinking, or that nothing does: %j", async (text, outputTokens, shown) => {
  const openModel: OpenModel = async () => ({
    complete: async () => ({ text, usage: { inputTokens: 200, outputTokens } }),
  });
  const { call, close } = await openWorldTools(world, { reason: model, extract: model }, { openModel });
  expect(await call("reason", { problem: "Which town?" })).toBe(shown);
  expect((await call("visit", page("/wiki/Alby"))).split("\n\n").at(-1)).toBe(shown);
  await close();
});
