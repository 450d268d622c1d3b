/**
 * @file SearXNG: a self-hosted metasearch engine. GET `/search?format=json`, which its settings.yml must allow (`search.formats`). An empty
 * list of results while engines are unresponsive is an outage, not an answer.
 */
import * as z from "zod";
import { OptionalText, type SearchBackend } from "./backend.ts";

const Answer = z
  .object({
    results: z.array(z.object({ title: OptionalText, url: z.string(), content: OptionalText })),
    unresponsive_engines: z.array(z.array(z.string())).default([]),
  })
  .refine(({ results, unresponsive_engines }) => results.length > 0 || unresponsive_engines.length === 0, {
    error: ({ input }) => `no results, and these engines do not respond: ${unresponsive(input)}`,
  })
  .transform(({ results }) => results.map(({ title, url, content }) => ({ title, url, snippet: content })));

const unresponsive = (input: unknown) =>
  (input as { unresponsive_engines: string[][] }).unresponsive_engines
    .map(([engine, why]) => `${engine} (${why})`)
    .join(", ");

export function searxng(url: string): SearchBackend {
  const base = new URL(url);
  const pathKey = base.pathname.replace(/\/+$/, "").replace(/\/search$/, "");
  base.pathname = `${pathKey}/search`;
  return {
    pathKey,
    request(query) {
      const address = new URL(base);
      address.searchParams.set("q", query);
      address.searchParams.set("format", "json");
      return { name: "SearXNG", url: address, method: "GET", headers: {}, schema: Answer };
    },
  };
}
