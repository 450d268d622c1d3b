/** @file Brave Search. GET with X-Subscription-Token; https://api-dashboard.search.brave.com. */
import * as z from "zod";
import { OptionalText, pathKeyOf, type SearchBackend } from "./backend.ts";

const Answer = z
  .object({
    web: z
      .object({
        results: z.array(z.object({ title: OptionalText, url: z.string(), description: OptionalText })).default([]),
      })
      .optional(),
  })
  .transform(({ web }) =>
    (web?.results ?? []).map(({ title, url, description }) => ({ title, url, snippet: description })),
  );

export function brave(url: string, keyVariable: string, key: string): SearchBackend {
  return {
    pathKey: pathKeyOf(url, "/res/v1/web/search"),
    request(query, results) {
      const address = new URL(url);
      address.searchParams.set("q", query);
      address.searchParams.set("count", String(results));
      address.searchParams.set("text_decorations", "false");
      return {
        name: "Brave",
        url: address,
        method: "GET",
        keyVariable,
        schema: Answer,
        headers: { "x-subscription-token": key },
      };
    },
  };
}
