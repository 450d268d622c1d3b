/** @file Brave Search. GET with X-Subscription-Token; https://api-dashboard.search.brave.com. */
import * as z from "zod";
import type { SearchBackend } from "./backend.ts";
import { cutQuery, type QueryLimits } from "./cut-query.ts";

const Answer = z
  .object({
    web: z
      .object({
        results: z
          .array(z.object({ title: z.string().default(""), url: z.string(), description: z.string().default("") }))
          .default([]),
      })
      .optional(),
  })
  .transform(({ web }) =>
    (web?.results ?? []).map(({ title, url, description }) => ({ title, url, snippet: description })),
  );

/** The API refuses longer queries. */
const MAX_QUERY: QueryLimits = { characters: 400, words: 50 };

export function brave(url: string, variable: string, key: string): SearchBackend {
  return {
    request(query, results) {
      const address = new URL(url);
      address.searchParams.set("q", cutQuery(query, MAX_QUERY));
      address.searchParams.set("count", String(results));
      address.searchParams.set("text_decorations", "false");
      return {
        name: "Brave",
        url: address,
        method: "GET",
        key: variable,
        answer: Answer,
        headers: { "x-subscription-token": key },
      };
    },
  };
}
