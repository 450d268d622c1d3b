/** @file Brave Search. GET with X-Subscription-Token; https://api-dashboard.search.brave.com. */
import * as z from "zod";
import type { SearchBackend } from "./backend.ts";

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

/** The API refuses longer queries, so they are cut at a word. */
const MAX_QUERY = { characters: 400, words: 50 };

export function brave(url: string, variable: string, key: string): SearchBackend {
  return {
    request(query, results) {
      const address = new URL(url);
      address.searchParams.set("q", cut(query));
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

function cut(query: string): string {
  const words = query.trim().split(/\s+/).slice(0, MAX_QUERY.words);
  while (words.length > 1 && words.join(" ").length > MAX_QUERY.characters) words.pop();
  return words.join(" ").slice(0, MAX_QUERY.characters);
}
