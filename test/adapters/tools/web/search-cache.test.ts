/** @file Cached answers of the search tool: an answer is used again for the same backend at the same address, with the same parameters. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { searxng } from "../../../../adapters/tools/web/search/searxng.ts";
import { serveHttp } from "../../../fakes/http-server.ts";
import { memoryStore } from "../../../fakes/memory-store.ts";
import { serveWorld, type WorldServer } from "../../../world/server.ts";
import { openWorldTools, type WorldTools } from "../../../world/tools.ts";

let world: WorldServer;
const opened: WorldTools[] = [];

beforeAll(async () => {
  world = await serveWorld();
});
afterAll(async () => {
  await Promise.all(opened.map((tools) => tools.close()));
  await world.close();
});

test("the parameters of SearXNG's address are sent, and an answer is cached only for the same parameters", async () => {
  const { url } = searxng("https://a.test/web/?engines=bing").request("Alby", 3);
  expect(url.href).toBe("https://a.test/web/search?engines=bing&q=Alby&format=json");
  const store = memoryStore();
  const before = world.searches();
  for (const engines of ["bing", "google", "bing"]) {
    const search = { backend: "searxng", url: `${world.origin}/searxng?engines=${engines}`, requestsPerSecond: 1000 };
    const tools = await openWorldTools(world, { search }, { store });
    opened.push(tools);
    expect(await tools.call("search", { query: "Alby" })).toMatch(/^1\. Alby/);
  }
  expect(world.searches() - before).toBe(2);
});

test("SearXNG instances under different paths of one origin do not share answers, unlike two spellings of one address", async () => {
  const asked: unknown[] = [];
  const origin = await serveHttp((request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://a.test");
    asked.push(pathname);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ results: [{ title: pathname, url: "https://a.test/" }] }));
  });
  const store = memoryStore();
  const titles: unknown[] = [];
  for (const path of ["", "/search", "/ours", "/ours/search/", "/theirs"]) {
    const tools = await openWorldTools(world, { search: { backend: "searxng", url: origin + path } }, { store });
    opened.push(tools);
    titles.push((await tools.call("search", { query: "Alby" })).split("\n")[0]);
  }
  expect(asked).toEqual(["/search", "/ours/search", "/theirs/search"]);
  expect(titles).toEqual(
    ["/search", "/search", "/ours/search", "/ours/search", "/theirs/search"].map((at) => `1. ${at}`),
  );
  const answers = await Promise.all(store.objects.keys().map((key) => store.objects.get(key)));
  const backends = answers.map((bytes) => JSON.parse(new TextDecoder().decode(bytes)).request.backend);
  expect(backends.sort()).toEqual(["", "/ours", "/theirs"].map((path) => `searxng ${origin}${path}`));
});

test.each([
  ["serper", "/search"],
  ["tavily", "/search"],
  ["brave", "/res/v1/web/search"],
])(
  "an answer of %s is cached under the path that gave it; the cache key for the usual path contains no path",
  async (backend, usual) => {
    const asked: unknown[] = [];
    const origin = await serveHttp((request, response) => {
      asked.push(new URL(request.url ?? "", "http://a.test").pathname);
      response.writeHead(200, { "content-type": "application/json" }).end('{"results":[]}');
    });
    const store = memoryStore();
    for (const path of [usual, "/scholar", "/scholar", usual]) {
      const tools = await openWorldTools(world, { search: { backend, url: origin + path } }, { store });
      opened.push(tools);
      await tools.call("search", { query: "Alby" });
    }
    expect(asked).toEqual([usual, "/scholar"]);
    const answers = await Promise.all(store.objects.keys().map((key) => store.objects.get(key)));
    const backends = answers.map((bytes) => JSON.parse(new TextDecoder().decode(bytes)).request.backend);
    expect(backends.sort()).toEqual(["", "/scholar"].map((path) => `${backend} ${origin}${path}`));
  },
);
