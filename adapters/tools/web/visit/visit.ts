/**
 * @file The tool `visit`: the text of a page or PDF, as much of it as the agent will see, and what is left of it under `part`; or, with a
 * model to read for the agent, what the page says towards a goal.
 */
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import * as z from "zod";
import { wordingOf } from "../../../../core/contracts/question.ts";
import { partsWithin } from "../../../../core/conversation/token-room.ts";
import type { Tool, ToolContext } from "../../../../core/ports.ts";
import type { ReadTowards } from "../models/extract.ts";
import { unlessAborted } from "../outside/cache.ts";
import type { Outside } from "../outside/outside.ts";
import type { VisitSettings } from "../settings.ts";
import { type Fetched, type FetchOptions, fetchPage } from "./fetch-page.ts";
import type { Reader } from "./reader.ts";

/** As it is cached: raised with every change of how pages become text. */
const READING = "visit 1";
/** Tries at a site that may answer another time, and the pause before the next. */
const TRIES = 3;
const PAUSE_MILLISECONDS = 1000;
/** Room for the lines above a part, beside title and address. */
const HEADING = 40;
const HEADING_NOTE = "part 999, goes on in part 1000";
const LONGEST_TITLE = 120;
const LONGEST_URL = 300;
const SHORTEST_PART = 100;

const Page = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("page"), url: z.string(), title: z.string(), text: z.string() }),
  z.strictObject({ kind: z.literal("none"), why: z.string() }),
  z.strictObject({ kind: z.literal("blocked") }),
]);
type Page = z.infer<typeof Page>;

export interface VisitOptions {
  readonly settings: VisitSettings;
  readonly fetching: FetchOptions;
  readonly reader: Reader;
  readonly outside: Outside;
  /** Absent: the tool takes no goal. */
  readonly readTowards?: ReadTowards;
}

const Plain = z.strictObject({ url: z.string(), part: z.int().positive().optional() });
const WithGoal = Plain.extend({ goal: z.string().regex(/\S/, "says nothing").optional() });
type Arguments = z.infer<typeof WithGoal>;

export function visitTool({ settings, fetching, reader, outside, readTowards }: VisitOptions): Tool<Arguments> {
  const { requestsPerSecond, usdPerCall, maxCharacters } = settings;
  const bucket = outside.bucket(requestsPerSecond);

  async function open(url: URL): Promise<Page> {
    const fetched = await fetchPatiently(url);
    if (fetched.kind !== "document") return fetched.kind === "blocked" ? fetched : { kind: "none", why: fetched.why };
    const extracted = await reader.read({ url: fetched.url.href, type: fetched.type, bytes: fetched.bytes });
    if ("unreadable" in extracted) return { kind: "none", why: extracted.unreadable };
    const { title, text } = extracted;
    return { kind: "page", url: fetched.url.href, title, text: clip(text, maxCharacters) };
  }

  async function fetchPatiently(url: URL): Promise<Fetched> {
    for (let attempt = 1; ; attempt++) {
      await bucket.removeTokens(1);
      const fetched = await fetchPage(url, fetching);
      if (fetched.kind !== "none" || !fetched.again || attempt === TRIES) return fetched;
      await pause(PAUSE_MILLISECONDS * 2 ** (attempt - 1));
    }
  }

  async function visited({ url, part = 1, goal }: Arguments, context: ToolContext): Promise<string> {
    const address = addressOf(url);
    if (!address) return `${clip(url, LONGEST_TITLE)} is no address of a page: it must start with https:// or http://`;
    const refused = context.purse.take(usdPerCall);
    if (refused) return refused;
    const blocked = async () => {
      await outside.countBlocked(1);
      return `${address.href} cannot be opened`;
    };
    if (outside.guard.blocks(address)) return blocked();
    const request = { tool: "visit", backend: READING, arguments: { url: address.href } };
    const { canary } = context.question;
    const page = await outside.answer(request, Page, usdPerCall, () => open(address), { canary });
    if (page.kind === "blocked" || (page.kind === "page" && outside.guard.blocks(new URL(page.url)))) return blocked();
    if (page.kind === "none") return `${address.href} cannot be read: ${page.why}`;
    if (outside.guard.holds(page.text, wordingOf(context.question))) return blocked();
    if (page.text === "") return `${address.href} holds no text`;
    if (goal !== undefined && readTowards) return headed(page, "", await readTowards(page, goal, context));
    const { shown, isLast, parts } = await look(partsFor(page, context), part);
    if (shown === undefined) return `${address.href} has no part ${part}: its last one is part ${parts}`;
    const note = isLast ? `part ${part}, the last one` : `part ${part}, goes on in part ${part + 1}`;
    return headed(page, isLast && part === 1 ? "" : note, shown);
  }

  return {
    name: "visit",
    description: readTowards
      ? "Opens a web page or PDF. With a goal: what it says towards that goal. Without: its text, by parts if it is long."
      : "Opens a web page or PDF and returns its text, by parts if it is long.",
    parameters: readTowards ? WithGoal : Plain,
    run: (call, context) => unlessAborted(visited(call, context), context.signal),
  };
}

function addressOf(url: string): URL | undefined {
  const trimmed = url.trim();
  if (!URL.canParse(trimmed)) return undefined;
  const address = new URL(trimmed);
  address.hash = "";
  return address;
}

/** Parts that reach the agent whole under their heading, by characters and by its tokens. */
function* partsFor(
  page: Extract<Page, { kind: "page" }>,
  { responseCharacters, responseTokens }: ToolContext,
): Iterable<string> {
  const heading = Math.min(page.url.length, LONGEST_URL) + Math.min(page.title.length, LONGEST_TITLE) + HEADING;
  const characters = Math.max(responseCharacters - heading, SHORTEST_PART);
  if (!responseTokens) return yield* partsOf(page.text, characters);
  const { tokens, count } = responseTokens;
  const room = { tokens: Math.max(tokens - count(headed(page, HEADING_NOTE, "")), 1), count };
  for (const part of partsWithin(page.text, room)) yield* partsOf(part, characters);
}

/** One part, and whether it is the last. Parts are made one by one: this process has other things to do than to read a whole page at once. */
async function look(
  parts: Iterable<string>,
  wanted: number,
): Promise<{ shown: string | undefined; isLast: boolean; parts: number }> {
  let shown: string | undefined;
  let seen = 0;
  for (const part of parts) {
    if (shown !== undefined) return { shown, isLast: false, parts: seen };
    seen += 1;
    if (seen === wanted) shown = part;
    await nextTurn();
  }
  return { shown, isLast: true, parts: seen };
}

function headed({ title, url }: Extract<Page, { kind: "page" }>, note: string, text: string): string {
  const heading = [clip(title.replace(/\s+/g, " "), LONGEST_TITLE), clip(url, LONGEST_URL), note].filter(
    (line) => line !== "",
  );
  return `${heading.join("\n")}\n\n${text}`;
}

/** Consecutive parts of at most so many characters, ended at a line or word where one ends in their last fifth. */
export function partsOf(text: string, characters: number): string[] {
  const parts: string[] = [];
  for (let from = 0; from < text.length; ) {
    const whole = clip(text.slice(from), characters);
    const isLast = from + whole.length >= text.length;
    const earliest = Math.floor(characters * 0.8);
    const ends = [whole.lastIndexOf("\n"), whole.lastIndexOf(" ")].filter((end) => end > earliest);
    const part = isLast || ends[0] === undefined ? whole : whole.slice(0, ends[0] + 1);
    parts.push(part);
    from += part.length;
  }
  return parts;
}

/** A prefix that does not end in half a character; at least one. */
function clip(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const end = characters > 1 && /[\uD800-\uDBFF]/.test(text[characters - 1] ?? "") ? characters - 1 : characters;
  return text.slice(0, end);
}
