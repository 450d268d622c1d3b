/** @file Tavily: search for language models. POST with a bearer key; 432 and 433 mean an exhausted plan; https://docs.tavily.com. */
import * as z from "zod";
import type { SearchBackend } from "./backend.ts";
import { cutQuery, type QueryLimits } from "./cut-query.ts";

const Answer = z
  .object({
    results: z.array(z.object({ title: z.string().nullish(), url: z.string(), content: z.string().nullish() })),
  })
  .transform(({ results }) =>
    results.map(({ title, url, content }) => ({ title: title ?? "", url, snippet: content ?? "" })),
  );

/** The API refuses longer queries. */
const MAX_QUERY: QueryLimits = { characters: 400 };

export function tavily(url: string, variable: string, key: string): SearchBackend {
  return {
    request: (query, results) => ({
      name: "Tavily",
      url: new URL(url),
      method: "POST",
      key: variable,
      answer: Answer,
      headers: { authorization: `Bearer ${key}` },
      body: { query: cutQuery(query, MAX_QUERY), max_results: results, search_depth: "basic" },
    }),
  };
}
