/**
 * @file The tool `visit`: the text of a page, PDF or Excel workbook, in parts that each fit into a response; or, with an extracting model and a
 * goal, what the page says about that goal.
 */
import { setTimeout as pause } from "node:timers/promises";
import * as z from "zod";
import { originalWording } from "../../../../core/contracts/question.ts";
import type { Tool, ToolContext } from "../../../../core/ports.ts";
import { clip } from "../../../../core/well-formed.ts";
import { showPart, withHeading } from "../../documents/parts.ts";
import type { Reader } from "../../documents/reader.ts";
import { abortable } from "../external/cache.ts";
import type { ExternalCalls } from "../external/calls.ts";
import type { BeginExtraction } from "../models/extract.ts";
import type { VisitSettings } from "../settings.ts";
import { type FetchOptions, type FetchOutcome, fetchPage } from "./fetch-page.ts";

/** Part of the cache key. Increment it whenever the conversion of pages to text changes. */
const BACKEND = "visit 7";
/** Characters of an invalid address that a response repeats. */
const MAX_QUOTED_URL = 120;
/** Attempts to fetch a page whose failure is retryable, and the pause after the first, which doubles each time. */
const ATTEMPTS = 3;
const PAUSE_MILLISECONDS = 1000;
const PageResult = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("page"), url: z.string(), title: z.string(), text: z.string() }),
  z.strictObject({ kind: z.literal("none"), why: z.string() }),
  z.strictObject({ kind: z.literal("blocked") }),
]);
type PageResult = z.infer<typeof PageResult>;

export interface VisitOptions {
  readonly settings: VisitSettings;
  readonly fetching: FetchOptions;
  readonly reader: Reader;
  readonly calls: ExternalCalls;
  /** Absent: the tool takes no goal. */
  readonly extractForGoal?: BeginExtraction;
}

const Plain = z.strictObject({ url: z.string(), part: z.int().positive().optional() });
const WithGoal = Plain.extend({ goal: z.string().regex(/\S/, "must not be blank").optional() });
type Arguments = z.infer<typeof WithGoal>;

export function visitTool({ settings, fetching, reader, calls, extractForGoal }: VisitOptions): Tool<Arguments> {
  const { requestsPerSecond, usdPerCall, ...limits } = settings;
  // What the response depends on besides the address.
  const dependsOn = { ...limits, blocked: fetching.guard.blocked };
  const bucket = calls.bucket(requestsPerSecond);

  async function open(url: URL, caller: string): Promise<PageResult> {
    const fetched = await fetchWithRetries(url);
    if (fetched.kind !== "document") return fetched.kind === "blocked" ? fetched : { kind: "none", why: fetched.why };
    const { type, bytes } = fetched;
    const { maxCharacters } = limits;
    const extracted = await reader.read({ url: fetched.url.href, type, bytes, maxCharacters }, caller);
    if ("unreadable" in extracted) return { kind: "none", why: extracted.unreadable };
    return { kind: "page", url: fetched.url.href, ...extracted };
  }

  async function fetchWithRetries(url: URL): Promise<FetchOutcome> {
    for (let attempt = 1; ; attempt++) {
      await bucket.removeTokens(1);
      const fetched = await fetchPage(url, fetching);
      if (fetched.kind !== "none" || !fetched.isRetryable || attempt === ATTEMPTS) return fetched;
      await pause(PAUSE_MILLISECONDS * 2 ** (attempt - 1));
    }
  }

  async function visit({ url, part = 1, goal }: Arguments, context: ToolContext): Promise<string> {
    const address = addressOf(url);
    if (!address)
      return `${clip(url, MAX_QUOTED_URL)} is not the address of a page: it must start with https:// or http://`;
    const refused = context.budget.charge(usdPerCall);
    if (refused) return refused;
    const extract = goal === undefined ? undefined : extractForGoal?.(goal, context);
    const blocked = async () => {
      await calls.countBlocked(1);
      return `${address.href} cannot be opened`;
    };
    if (calls.guard.isBlocked(address)) return blocked();
    const request = { tool: "visit", backend: BACKEND, arguments: { url: address.href, ...dependsOn } };
    const { canary } = context.question;
    const page = await calls.call(request, PageResult, usdPerCall, () => open(address, rolloutOf(context)), { canary });
    if (page.kind === "blocked" || (page.kind === "page" && calls.guard.isBlocked(new URL(page.url)))) return blocked();
    if (page.kind === "none") return `${address.href} cannot be read: ${page.why}`;
    if (calls.guard.leaksQuestion(`${page.title}\n${page.text}`, originalWording(context.question))) return blocked();
    if (page.text === "") return `${address.href} contains no text`;
    if (extract) return withHeading({ ...page, source: page.url }, "", await extract(page));
    return showPart({ ...page, source: page.url }, part, context);
  }

  return {
    name: "visit",
    description: extractForGoal
      ? "Opens a web page or PDF. With a goal, returns what it says about that goal; without one, its text, in parts if it is long."
      : "Opens a web page or PDF and returns its text, in parts if it is long.",
    parameters: extractForGoal ? WithGoal : Plain,
    run: (call, context) => abortable(visit(call, context), context.signal),
  };
}

/** The key of the reader's fair queue: rollouts take turns, however many conversations each has. */
const rolloutOf = ({ address: { run, phase, step, group, rollout } }: ToolContext): string =>
  [run, phase, step, group, rollout].join("/");

function addressOf(url: string): URL | undefined {
  const trimmed = url.trim();
  if (!URL.canParse(trimmed)) return undefined;
  const address = new URL(trimmed);
  address.hash = "";
  return address;
}
