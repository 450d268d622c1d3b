/** @file The test world on a local port: its pages, its search engine, and its hostile pages. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { hostile } from "./hostile.ts";
import { htmlOf, worldPages } from "./pages.ts";
import { openSearchApi } from "./search-api.ts";

export interface WorldServer {
  readonly origin: string;
  /** Requests so far for the page at this path. */
  asked(path: string): number;
  /** Requests so far to the search engine. */
  searches(): number;
  close(): Promise<void>;
}

export async function serveWorld(): Promise<WorldServer> {
  const asked = new Map<string, number>();
  const search = openSearchApi();
  const pages = new Map(worldPages.map((page) => [page.path, htmlOf(page)]));
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://world");
    const path = decodeURIComponent(pathname);
    if (await search.handle(request, response)) return;
    asked.set(path, (asked.get(path) ?? 0) + 1);
    const behave = hostile[path];
    const page = pages.get(path);
    if (behave) behave(response);
    else if (page) response.writeHead(200, { "content-type": "text/html" }).end(page);
    else response.writeHead(404, { "content-type": "text/html" }).end("<p>There is no such page.</p>");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    asked: (path) => asked.get(path) ?? 0,
    searches: () => search.asked(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
