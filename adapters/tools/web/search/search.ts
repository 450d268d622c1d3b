/** @file The tool `search`: titles, URLs and snippets of the top results, except those that the leakage guard withholds. */
import * as z from "zod";
import { originalWording } from "../../../../core/contracts/question.ts";
import type { Tool } from "../../../../core/ports.ts";
import { clip } from "../../../../core/well-formed.ts";
import { abortable } from "../external/cache.ts";
import type { ExternalCalls } from "../external/calls.ts";
import type { SearchSettings } from "../settings.ts";
import type { SearchBackend, SearchResult } from "./backend.ts";

/**
 * A backend's refusal would halt the run, so longer queries are cut: Brave refuses more characters or words, Tavily more characters, and a web
 * server, such as SearXNG's, a long URL. Google only ignores words after the 32nd, so it needs no lower limit.
 */
const MAX_QUERY = { characters: 400, words: 50 };

const Results = z.array(z.strictObject({ title: z.string(), url: z.string(), snippet: z.string() }));

export function searchTool(
  { backend: name, url, results, requestsPerSecond, usdPerCall }: SearchSettings,
  backend: SearchBackend,
  calls: ExternalCalls,
): Tool<{ query: string }> {
  const bucket = calls.bucket(requestsPerSecond);
  const { origin, search: parameters } = new URL(url);
  const service = `${name} ${origin}${backend.pathKey}${parameters}`;
  return {
    name: "search",
    description: `Searches the web; returns the ${results} best results, each with its URL.`,
    parameters: z.strictObject({ query: z.string().regex(/\S/, "must not be blank") }),
    async run({ query }, context) {
      const refused = context.budget.charge(usdPerCall);
      if (refused) return refused;
      const args = { query: query.trim(), results };
      const request = { tool: "search", backend: service, arguments: args };
      const ask = async () =>
        (await calls.backends.request(backend.request(cut(args.query), results), bucket)).slice(0, results);
      const { canary } = context.question;
      const found = await abortable(calls.call(request, Results, usdPerCall, ask, { canary }), context.signal);
      const shown = found.filter(({ url, title, snippet }) => {
        const isBlocked = URL.canParse(url) && calls.guard.isBlocked(new URL(url));
        return !isBlocked && !calls.guard.leaksQuestion(`${title} ${snippet}`, originalWording(context.question));
      });
      await calls.countBlocked(found.length - shown.length);
      return shown.length === 0 ? "nothing found" : shown.map(formatResult).join("\n\n");
    },
  };
}

/** Ends after a word if there is one that fits, and never inside a character. */
function cut(query: string): string {
  const text = query.split(/\s+/).slice(0, MAX_QUERY.words).join(" ");
  if (text.length <= MAX_QUERY.characters) return text;
  const end = text.lastIndexOf(" ", MAX_QUERY.characters);
  return clip(text, end > 0 ? end : MAX_QUERY.characters);
}

const formatResult = ({ title, url, snippet }: SearchResult, i: number): string =>
  [`${i + 1}. ${oneLine(title) || "(no title)"}`, `   ${url}`, `   ${oneLine(snippet)}`].join("\n").trimEnd();

const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();
