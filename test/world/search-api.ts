/**
 * @file The search engine of the test world, in the formats of the four backends, each under a path of its own. The query
 * `HTTP <status>` returns that status, `long refusal` a 403 whose message has the key at the point where errors are cut off, `HTML` a login page,
 * `again <n>` a 429 the first n times, `later` a 429 with a long retry-after, `never` a 413 with a short retry-after and two lines of text,
 * `dead engines` no results and an unresponsive engine, `bare` a result without title or snippet, and `odd` JSON of the wrong shape. A query of
 * more than 400 characters or 50 words is refused with 400, and so are `no credits` and one that begins with `site:`, in the words of Serper.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { openSearchIndex } from "../../adapters/tools/search.ts";
import { searchable, worldPages } from "./pages.ts";

/** The key that the hosted backends require. */
export const SEARCH_KEY = "the-key-of-the-recorded-world";

const index = openSearchIndex(searchable);

interface Found {
  readonly title: string | null;
  readonly url: string;
  readonly text: string | null;
}

interface Format {
  query(request: IncomingMessage, body: { q?: string; query?: string }): string;
  isAllowed(request: IncomingMessage): boolean;
  bodyOf(found: readonly Found[]): unknown;
}

const inUrl = ({ url = "/" }: IncomingMessage) => new URL(url, "http://world").searchParams.get("q") ?? "";
const hasHeader = (name: string, value: string) => (request: IncomingMessage) => request.headers[name] === value;

const FORMATS: Readonly<Record<string, Format>> = {
  "/serper": {
    query: (_, { q = "" }) => q,
    isAllowed: hasHeader("x-api-key", SEARCH_KEY),
    bodyOf: (found) => ({
      searchParameters: { type: "search" },
      organic: found.map(({ title, url, text }, i) => ({ title, link: url, snippet: text, position: i + 1 })),
      credits: 1,
    }),
  },
  "/tavily": {
    query: (_, { query = "" }) => query,
    isAllowed: hasHeader("authorization", `Bearer ${SEARCH_KEY}`),
    bodyOf: (found) => ({
      results: found.map(({ title, url, text }, i) => ({ title, url, content: text, score: 1 / (i + 1) })),
      response_time: 0.1,
    }),
  },
  "/brave": {
    query: inUrl,
    isAllowed: hasHeader("x-subscription-token", SEARCH_KEY),
    bodyOf: (found) =>
      found.length === 0
        ? { type: "search" }
        : {
            type: "search",
            web: { results: found.map(({ title, url, text }) => ({ title, url, description: text })) },
          },
  },
  "/searxng/search": {
    query: inUrl,
    isAllowed: () => true,
    bodyOf: (found) => ({
      results: found.map(({ title, url, text }) => ({ title, url, content: text, engine: "world" })),
      unresponsive_engines: [],
    }),
  },
};

export function openSearchApi() {
  let asked = 0;
  const refusals = new Map<string, number>();

  function respond(path: string, query: string, origin: string, response: ServerResponse): void {
    const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
    const status = /^HTTP (\d+)$/.exec(query)?.[1];
    const key = path === "/searxng/search" ? "no" : SEARCH_KEY;
    if (status) return void json(Number(status), { message: `no: ${key}` });
    if (query === "long refusal") return void json(403, { message: "x".repeat(175) + key });
    if (query === "no credits") return void json(400, { message: "Not enough credits", statusCode: 400 });
    if (query.startsWith("site:")) return void json(400, { message: "Query pattern not allowed for free accounts" });
    if (query.length > 400 || query.split(/\s+/).length > 50) return void json(400, { message: "query is too long" });
    if (query === "HTML")
      return void response.writeHead(200, { "content-type": "text/html" }).end("<html>Log in</html>");
    if (query === "later") return void json(429, { message: "slow down" }, { "retry-after": "3600" });
    if (query === "never")
      return void response.writeHead(413, { "retry-after": "7" }).end("too large\r\nask for less\r\n");
    if (query === "dead engines") return void json(200, { results: [], unresponsive_engines: [["google", "timeout"]] });
    if (query === "bare")
      return void json(200, FORMATS[path]?.bodyOf([{ title: null, url: `${origin}/bare`, text: null }]));
    if (query === "odd") return void json(200, { organic: "none", results: 3, web: 4 });
    const times = Number(/^again (\d+)$/.exec(query)?.[1] ?? 0);
    const refused = refusals.get(path + query) ?? 0;
    refusals.set(path + query, refused + 1);
    if (refused < times) return void json(429, { message: "slow down" }, { "retry-after": "0.01" });
    const found = index.titles(query, 10).map((title) => ({
      title,
      url: origin + (worldPages.find((page) => page.title === title)?.path ?? "/"),
      text: searchable.get(title)?.split("\n")[0] ?? "",
    }));
    json(200, FORMATS[path]?.bodyOf(found));
  }

  return {
    /** The number of requests so far. */
    asked: () => asked,
    /** Answers a request whose path is one of the backends'. Returns whether it did. */
    async handle(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
      const path = new URL(request.url ?? "/", "http://world").pathname;
      const format = FORMATS[path];
      if (!format) return false;
      asked += 1;
      const sent = await text(request);
      if (!format.isAllowed(request)) {
        response.writeHead(401, { "content-type": "application/json" }).end('{"message":"Unauthorized."}');
        return true;
      }
      const body = sent === "" ? {} : JSON.parse(sent);
      respond(path, format.query(request, body), `http://${request.headers.host}`, response);
      return true;
    },
  };
}
