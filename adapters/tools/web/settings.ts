/**
 * @file The settings of web tools: what a recipe's `config.tools` holds when its tools.ts opens them (open.ts). Strict, with the
 * recommended defaults. Keys stand in variables of the worker's environment; a setting names the variable, never the key. docs/tools.md
 * explains each.
 */
import * as z from "zod";
import { LanguageModelSpec } from "../../../core/contracts/language-model.ts";

/** The name alone; a key that was written in its place does not fit, and is not repeated in the message. */
const Variable = z.string().regex(/^[A-Z_][A-Z0-9_]*$/, "must be the name of an environment variable");
const HttpUrl = z.url({ protocol: /^https?$/ });

/** Of one backend, in each worker process: they share no counter, so a plan's rate is to be divided by their number. */
const Rate = z.number().positive();
const Usd = z.number().nonnegative();

/** `usdPerCall`: the list price at the time of writing, pay-as-you-go. */
const Search = z.discriminatedUnion("backend", [
  z.strictObject({
    backend: z.literal("serper"),
    url: HttpUrl.default("https://google.serper.dev/search"),
    keyVariable: Variable.default("SERPER_API_KEY"),
    results: z.int().min(1).max(20).default(10),
    requestsPerSecond: Rate.default(10),
    usdPerCall: Usd.default(0.001),
  }),
  z.strictObject({
    backend: z.literal("tavily"),
    url: HttpUrl.default("https://api.tavily.com/search"),
    keyVariable: Variable.default("TAVILY_API_KEY"),
    results: z.int().min(1).max(20).default(10),
    requestsPerSecond: Rate.default(1.5),
    usdPerCall: Usd.default(0.008),
  }),
  z.strictObject({
    backend: z.literal("brave"),
    url: HttpUrl.default("https://api.search.brave.com/res/v1/web/search"),
    keyVariable: Variable.default("BRAVE_API_KEY"),
    results: z.int().min(1).max(20).default(10),
    requestsPerSecond: Rate.default(10),
    usdPerCall: Usd.default(0.005),
  }),
  z.strictObject({
    backend: z.literal("searxng"),
    /** Of one's own instance, which answers in JSON (`search.formats` in its settings.yml). */
    url: HttpUrl,
    results: z.int().min(1).max(20).default(10),
    requestsPerSecond: Rate.default(2),
    usdPerCall: Usd.default(0),
  }),
]);
export type SearchSettings = z.infer<typeof Search>;

const Visit = z.strictObject({
  /** Bytes of one body, after decompression. */
  maxBytes: z.int().positive().default(10_000_000),
  /** For the whole of one page: redirects, body and all. */
  seconds: z.number().positive().default(30),
  redirects: z.int().nonnegative().default(5),
  /** Of the text that is kept of one page. */
  maxCharacters: z.int().positive().default(500_000),
  requestsPerSecond: Rate.default(10),
  usdPerCall: Usd.default(0),
  /** For tests and closed networks: address ranges (CIDR) that may be opened although they are not public. */
  allowAddresses: z.array(z.union([z.cidrv4(), z.cidrv6()])).default([]),
});
export type VisitSettings = z.infer<typeof Visit>;

const McpCommon = {
  /** Names of the server's tools to offer; null: all of them. */
  only: z.array(z.string()).min(1).nullable().default(null),
  /** Names not to offer. */
  without: z.array(z.string()).default([]),
  /** For one call. */
  seconds: z.number().positive().default(60),
  /** False: calls change or depend on something, so none is answered from the cache. */
  cached: z.boolean().default(true),
  requestsPerSecond: Rate.default(10),
  usdPerCall: Usd.default(0),
};
const Mcp = z.union(
  [
    z.strictObject({
      command: z.string().min(1),
      arguments: z.array(z.string()).default([]),
      /** Variables that its process gets beside PATH, HOME and the like. */
      environment: z.array(Variable).default([]),
      ...McpCommon,
    }),
    z.strictObject({
      url: HttpUrl,
      /** Header -> the variable that holds its whole value (`Authorization` -> `GITHUB_MCP_AUTHORIZATION`). */
      headers: z.record(z.string(), Variable).default({}),
      ...McpCommon,
    }),
  ],
  "give either a command (a server on this machine) or a url (streamable HTTP), and nothing that belongs to the other",
);
export type McpSettings = z.infer<typeof Mcp>;

const Model = z.strictObject({
  model: LanguageModelSpec,
  /** Of one answer. */
  maxTokens: z.int().positive().default(2000),
  /** Dollars per million tokens, which budgets in dollars need. Null: it has no price here, and counts nothing. */
  usdPerMillionTokens: z.strictObject({ input: Usd, output: Usd }).nullable().default(null),
});
export type ModelSettings = z.infer<typeof Model>;

const Limit = z.strictObject({
  calls: z.int().positive().nullable().default(null),
  usd: z.number().positive().nullable().default(null),
});

export const WebSettings = z.strictObject({
  /** Absent: there is no tool `search`. */
  search: Search.optional(),
  visit: Visit.prefault({}),
  /** The model behind the tool `reason`; absent: there is none. */
  reason: Model.optional(),
  /** The model that reads pages towards a goal; absent: `visit` takes no goal. */
  extract: Model.optional(),
  /** Server -> how to reach it. Its tools are called `<server>_<tool>`. */
  mcp: z.record(z.string().regex(/^[a-z][a-z0-9]*$/, "must be lower-case letters and digits"), Mcp).default({}),
  cache: z
    .strictObject({
      /** `live`: nothing is kept. `cached`: what was answered once is answered so again. `replay`: only what was answered before. */
      mode: z.enum(["live", "cached", "replay"]).default("cached"),
      /** The run whose answers these are, in the same store; null: this run's own. */
      run: z.string().min(1).nullable().default(null),
      /** A folder instead, for runs that share no store. */
      folder: z.string().min(1).nullable().default(null),
    })
    .refine(({ run, folder }) => run === null || folder === null, { error: "give cache.run or cache.folder, not both" })
    .prefault({}),
  budget: z
    .strictObject({
      /** Of each rollout, all its conversations together, cached answers included: the agent is told when it is spent. */
      rollout: Limit.prefault({}),
      /** Of all that was really asked of backends: the run is halted. */
      run: Limit.prefault({}),
    })
    .prefault({}),
  /** Pages that would give a benchmark away: beside those of the known benchmarks (visit/leakage.ts), `host` or `host/path`. */
  blocked: z
    .array(z.string().regex(/^[^/\s:]+(\/\S*)?$/, "must be a host, or host/path, without https://"))
    .default([]),
});
export type WebSettings = z.infer<typeof WebSettings>;
