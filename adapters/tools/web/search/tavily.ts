/** @file Tavily: a search API made for language models. POST with a bearer token; 432 and 433 mean that a usage limit is exceeded; https://docs.tavily.com. */
import * as z from "zod";
import { OptionalText, pathKeyOf, type SearchBackend } from "./backend.ts";

const Answer = z
  .object({
    results: z.array(z.object({ title: OptionalText, url: z.string(), content: OptionalText })),
  })
  .transform(({ results }) => results.map(({ title, url, content }) => ({ title, url, snippet: content })));

export function tavily(url: string, keyVariable: string, key: string): SearchBackend {
  return {
    pathKey: pathKeyOf(url, "/search"),
    request: (query, results) => ({
      name: "Tavily",
      url: new URL(url),
      method: "POST",
      keyVariable,
      schema: Answer,
      headers: { authorization: `Bearer ${key}` },
      body: { query, max_results: results, search_depth: "basic" },
    }),
  };
}
