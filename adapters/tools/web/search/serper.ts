/** @file Serper: Google's results. POST with X-API-KEY; https://serper.dev. */
import * as z from "zod";
import { OptionalText, pathKeyOf, type SearchBackend } from "./backend.ts";

const Answer = z
  .object({
    organic: z.array(z.object({ title: OptionalText, link: z.string(), snippet: OptionalText })).default([]),
  })
  .transform(({ organic }) => organic.map(({ title, link, snippet }) => ({ title, url: link, snippet })));

export function serper(url: string, keyVariable: string, key: string): SearchBackend {
  return {
    pathKey: pathKeyOf(url, "/search"),
    request: (query, results) => ({
      name: "Serper",
      url: new URL(url),
      method: "POST",
      keyVariable,
      schema: Answer,
      headers: { "x-api-key": key },
      body: { q: query, num: results },
    }),
  };
}
