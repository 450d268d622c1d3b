/**
 * @file The search tool over four backends on a fake search engine: results and empty results, outages and refusals, keys and other settings, and
 * results that are withheld.
 */
import { json } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openBackends, openTokenBucket, reasonOf } from "../../../../adapters/tools/web/external/backend.ts";
import { openWebTools } from "../../../../adapters/tools/web/open.ts";
import { serper } from "../../../../adapters/tools/web/search/serper.ts";
import { openToolBudget } from "../../../../core/conversation/tool-budget.ts";
import { question } from "../../../fakes/conversations.ts";
import { serveHttp } from "../../../fakes/http-server.ts";
import { memoryStore } from "../../../fakes/memory-store.ts";
import { SEARCH_KEY } from "../../../world/search-api.ts";
import { serveWorld, type WorldServer } from "../../../world/server.ts";
import { openWorldTools, type WorldTools, worldConfig, worldSettings } from "../../../world/tools.ts";

let world: WorldServer;
const opened: WorldTools[] = [];

async function openSearch(search: Record<string, unknown>, more: Record<string, unknown> = {}): Promise<WorldTools> {
  const tools = await openWorldTools(world, { search: { requestsPerSecond: 1000, ...search }, ...more });
  opened.push(tools);
  return tools;
}
const over = (backend: string) => openSearch({ backend, url: `${world.origin}/${backend}` });

beforeAll(async () => {
  world = await serveWorld();
});
afterAll(async () => {
  await Promise.all(opened.map((tools) => tools.close()));
  await world.close();
});

describe.each(["serper", "tavily", "brave", "searxng"])("%s", (backend) => {
  test("a result has titles, addresses and snippets, best first; an empty one is not an error", async () => {
    const { call } = await over(backend);
    const text = await call("search", { query: "  Alby" });
    expect(text).toMatch(/^1\. Alby\n {3}http:\/\/127\.0\.0\.1:\d+\/wiki\/Alby\n {3}Alby is a town in Arlandia/);
    expect(text.split("\n\n").length).toBeGreaterThan(1);
    expect(await call("search", { query: "xyzzy" })).toBe("nothing found");
    expect(await call("search", { query: "bare" })).toMatch(/^1\. \(no title\)\n {3}http:\S+\/bare$/);
  });
  test.each([
    ["words", "xyzzy ".repeat(100)],
    ["characters", `${"xyzzy".repeat(30)} `.repeat(5)],
    ["characters in one word", "xyzzy".repeat(200)],
  ])("a query of too many %s is cut, so that the backend does not refuse it", async (_what, query) => {
    const { call } = await over(backend);
    expect(await call("search", { query })).toBe("nothing found");
  });
  test("429 with Retry-After is retried", async () => {
    const { call } = await over(backend);
    const before = world.searches();
    expect(await call("search", { query: "again 2" })).toBe("nothing found");
    expect(world.searches() - before).toBe(3);
  });
  test.each([
    ["HTTP 402", /plan or credits do not cover this/, false],
    ["no credits", /HTTP 400 \(.*Not enough credits.*\): its plan or credits do not cover this: top them up/, false],
    ["site:alby.test", /HTTP 400 \(.*free accounts.*\): its plan or credits do not cover this: top them up/, false],
    ["HTTP 400", /HTTP 400 .*: it does not accept such requests: check the backend's url/, false],
    ["HTTP 403", /refuses the key|forbids this/, false],
    ["long refusal", /refuses the key|forbids this/, false],
    ["HTTP 301", /HTTP 301 .*: it redirects elsewhere: check the backend's url/, false],
    ["HTML", /responded with a page \(text\/html\) where JSON was expected: check/, false],
    ["odd", /answer of \w+ at http:\/\/127\.0\.0\.1:\d+: /, true],
  ])("the failure of the query '%s' is reported in one line, without the key", async (query, line, retryable) => {
    const { call } = await over(backend);
    const failed = call("search", { query });
    await expect(failed).rejects.toMatchObject({
      code: "tool-backend",
      message: expect.stringMatching(line),
      retryable,
    });
    await failed.catch((error: Error) => expect(error.message).not.toMatch(new RegExp(`${SEARCH_KEY.slice(0, 8)}|\n`)));
  });
});

test("a lasting outage is reported after retries, which wait as long as Retry-After says, or at once if that is too long", async () => {
  const slept: number[] = [];
  const sleep = async (seconds: number) => void slept.push(seconds);
  const backends = openBackends({ sleep }, (text) => text, { retries: 2, minTimeout: 1, factor: 1, randomize: false });
  const ask = (query: string) =>
    backends.request(serper(`${world.origin}/serper`, "KEY", SEARCH_KEY).request(query, 3), openTokenBucket(1000));
  for (const [query, attempts] of [
    ["HTTP 503", 3],
    ["later", 1],
  ] as const) {
    const before = world.searches();
    await expect(ask(query)).rejects.toMatchObject({ code: "tool-backend", retryable: true });
    expect(world.searches() - before).toBe(attempts);
  }
  await expect(ask("again 3")).rejects.toMatchObject({ code: "tool-backend", retryable: true });
  expect(slept).toEqual([0.01, 0.01]);
  await world.close();
  await expect(ask("Alby")).rejects.toThrow(/^Serper at http:\/\/127\.0\.0\.1:\d+: no answer \(/);
  await backends.close();
  world = await serveWorld();
});

test("a refusal that no retry can fix is reported at once, whatever its Retry-After, in one line", async () => {
  const slept: number[] = [];
  const backends = openBackends({ sleep: async (seconds) => void slept.push(seconds) }, (text) => text);
  const request = serper(`${world.origin}/serper`, "KEY", SEARCH_KEY).request("never", 3);
  await expect(backends.request(request, openTokenBucket(1000))).rejects.toMatchObject({
    code: "tool-backend",
    retryable: false,
    message: expect.stringMatching(/: HTTP 413 \(too large\)$/),
  });
  expect(slept).toEqual([]);
  await backends.close();
});

test("a response that is small only while compressed is refused", async () => {
  const bomb = gzipSync(JSON.stringify({ organic: [{ link: "a".repeat(20_000_000) }] }));
  expect(bomb.length).toBeLessThan(50_000);
  const url = await serveHttp((_, response) => {
    response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" }).end(bomb);
  });
  const retries = { retries: 0, minTimeout: 1, factor: 1, randomize: false };
  const backends = openBackends({ sleep: async () => {} }, (text) => text, retries);
  const request = serper(url, "KEY", SEARCH_KEY).request("Alby", 3);
  await expect(backends.request(request, openTokenBucket(1000))).rejects.toMatchObject({
    code: "tool-backend",
    retryable: true,
    message: expect.stringMatching(/: no answer \(the response exceeds 5000000 bytes\)$/),
  });
  await backends.close();
});

test("the error for a key that no header can hold is not retryable, and does not show the key", async () => {
  const retries = { retries: 0, minTimeout: 1, factor: 1, randomize: false };
  const backends = openBackends({ sleep: async () => {} }, (text) => text, retries);
  for (const odd of ["\u200B", "\nx"]) {
    const request = serper(`${world.origin}/serper`, "KEY", `${SEARCH_KEY}${odd}`).request("Alby", 3);
    await expect(backends.request(request, openTokenBucket(1000))).rejects.toMatchObject({
      code: "tool-backend",
      retryable: false,
      message: expect.stringMatching(/^Serper at \S+: its key has characters that no header can hold: check KEY$/),
    });
  }
  await backends.close();
});

test("closing the backends ends the wait for a retry, and refuses later requests", async () => {
  const sleep = async () => {};
  const retries = { retries: 2, minTimeout: 60_000, factor: 1, randomize: false };
  const backends = openBackends({ sleep }, (text) => text, retries);
  const request = serper(`${world.origin}/serper`, "KEY", SEARCH_KEY).request("HTTP 503", 3);
  const ask = () => backends.request(request, openTokenBucket(1000));
  const before = world.searches();
  const canceled = expect(ask()).rejects.toMatchObject({ code: "canceled" });
  await expect.poll(() => world.searches()).toBe(before + 1);
  await backends.close();
  await canceled;
  await expect(ask()).rejects.toMatchObject({ code: "canceled" });
  expect(world.searches()).toBe(before + 1);
});

test.each([
  [new DOMException("it took too long", "TimeoutError"), "it took too long"],
  [
    new TypeError("fetch failed", { cause: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }) }),
    "ECONNREFUSED: refused",
  ],
])("a failure's reason has its code if that is a string: %s", (error, reason) => expect(reasonOf(error)).toBe(reason));

test("a failure that is among its own causes has a reason", () => {
  const error = new Error("fetch failed");
  error.cause = new Error("refused", { cause: error });
  expect(reasonOf(error)).toBe("refused");
});

test("the error about a wrong key names its variable", async () => {
  const config = worldConfig(worldSettings(world));
  const { tools, close } = await openWebTools({ config, environment: { SERPER_API_KEY: "x" }, store: memoryStore() });
  const context = {
    question: { prompt: "" },
    budget: openToolBudget(undefined),
    responseCharacters: 100,
    signal: new AbortController().signal,
  };
  await expect(tools.get("search")?.run({ query: "Alby" } as never, context as never)).rejects.toThrow(
    /^Serper at http:\/\/127\.0\.0\.1:\d+: HTTP 401 \(.*\): it refuses the key: check SERPER_API_KEY$/,
  );
  await close();
});

test("an unpaired surrogate in a query, which strict servers refuse, is sent as U+FFFD", async () => {
  const bodies: unknown[] = [];
  const url = await serveHttp(async (request, response) => {
    bodies.push(await json(request));
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  });
  const { call } = await openSearch({ backend: "serper", url });
  expect(await call("search", { query: "cut \ud83d off" })).toBe("nothing found");
  expect(bodies).toEqual([{ q: "cut \ufffd off", num: 10 }]);
});

test("SearXNG engines that do not respond are an outage, not an empty result", async () => {
  const { call } = await over("searxng");
  await expect(call("search", { query: "dead engines" })).rejects.toThrow(
    /no results, and these engines do not respond: google \(timeout\)/,
  );
});

test("a missing key and an invalid setting are reported when the tools are opened", async () => {
  const open = (tools: Record<string, unknown>, environment = {}) =>
    openWebTools({ config: worldConfig(tools), environment, store: memoryStore() });
  await expect(open({ search: { backend: "brave" } })).rejects.toMatchObject({
    code: "config-invalid",
    message: "tools.search.keyVariable needs the environment variable BRAVE_API_KEY, which is empty or not set",
  });
  await expect(open({ search: { backend: "brave", keyVariable: "MY_KEY" } }, { MY_KEY: "" })).rejects.toThrow("MY_KEY");
  await expect(open({ serach: {} })).rejects.toThrow(/tools of run 'web': .*serach/);
  await expect(open({ search: { backend: "searxng" } })).rejects.toThrow(/search\.url/);
  const url = "http://me:secret@127.0.0.1";
  const refusal = /search\.url: must not contain a user name or password$/;
  await expect(open({ search: { backend: "searxng", url } })).rejects.toThrow(refusal);
  await expect(open({ cache: { run: "a", folder: "b" } })).rejects.toThrow("give cache.run or cache.folder, not both");
});

test("a result whose address is blocked is left out and counted", async () => {
  const { call, store } = await openSearch(
    { backend: "serper", url: `${world.origin}/serper` },
    { blocked: ["127.0.0.1/wiki/Alby"] },
  );
  const text = await call("search", { query: "Alby" });
  expect(text).not.toMatch(/wiki\/Alby$/m);
  expect(text).toMatch(/^1\. /);
  expect(await store.table.get({ pk: "RUN#web", sk: "TOOLS" })).toMatchObject({ blocked: 1, calls: 1 });
});

test("a result that contains a benchmark's question is left out, even if a loader has added text to the prompt", async () => {
  const { call } = await openSearch({ backend: "serper", url: `${world.origin}/serper` });
  const [first = ""] = (await call("search", { query: "Alby" })).split("\n\n");
  const [, address = "", wording = ""] = first.split("\n").map((line) => line.trim());
  const prompt = `${wording}\n\nAnswer with as few words as possible, and without the name of the town.`;
  const loaded = { ...question, prompt, facts: { question: wording } };
  expect(await call("search", { query: "Alby" }, { question: loaded })).not.toContain(`${address}\n`);
});
