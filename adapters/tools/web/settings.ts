/**
 * @file The settings of web tools: a recipe's `config.tools`, if its tools.ts opens them (open.ts). Strict; the defaults are
 * recommended. A setting names the worker's environment variable that holds a key, never the key itself. docs/tools.md explains each.
 */
import * as z from "zod";
import { LanguageModelSpec } from "../../../core/contracts/language-model.ts";

/** A name only: a key entered by mistake does not match, and the error does not repeat it. */
const Variable = z.string().regex(/^[A-Z_][A-Z0-9_]*$/, "must be the name of an environment variable");
const HttpUrl = z.url({ protocol: /^https?$/ });

/** Per backend and worker process. Processes share no counter: divide your plan's rate by the number of processes. */
const Rate = z.number().positive();
const Usd = z.number().nonnegative();
/** At most the longest wait of a Node.js timer, 2^31 - 1 ms: a longer one ends at once. */
const Seconds = z.number().positive().max(2_147_483);

/** `usdPerCall`: the pay-as-you-go list price at the time of writing. */
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
    /** Your instance, which must be able to answer in JSON (`search.formats` in its settings.yml). */
    url: HttpUrl,
    results: z.int().min(1).max(20).default(10),
    requestsPerSecond: Rate.default(2),
    usdPerCall: Usd.default(0),
  }),
]);
export type SearchSettings = z.infer<typeof Search>;

const Visit = z.strictObject({
  /** Per body, after decompression. */
  maxBytes: z.int().positive().default(10_000_000),
  /** For a whole page, redirects and body included. */
  seconds: Seconds.default(30),
  redirects: z.int().nonnegative().default(5),
  /** Limit on a page's text; the rest is cut. */
  maxCharacters: z.int().positive().default(500_000),
  requestsPerSecond: Rate.default(10),
  usdPerCall: Usd.default(0),
  /** For tests and closed networks: address ranges (CIDR) that may be opened although they are not public. */
  allowAddresses: z.array(z.union([z.cidrv4(), z.cidrv6()])).default([]),
});
export type VisitSettings = z.infer<typeof Visit>;

/** What is wrong with the settings of a server, as settings of the kind that they name; if they name none or both, that. */
function mcpFault(input: unknown, [ofCommand = [], ofUrl = []]: readonly (readonly z.core.$ZodIssue[])[]): string {
  const names = input !== null && typeof input === "object" ? Object.keys(input) : [];
  const isCommand = names.includes("command");
  if (isCommand === names.includes("url")) {
    return "give either a command (a server on this machine) or a url (streamable HTTP)";
  }
  const issues = isCommand ? ofCommand : ofUrl;
  return issues.map(({ path, message }) => (path.length > 0 ? `${path.join(".")}: ${message}` : message)).join("; ");
}

const McpCommon = {
  /** Which of the server's tools to offer; null: all. */
  only: z.array(z.string()).min(1).nullable().default(null),
  /** Tools not to offer. */
  without: z.array(z.string()).default([]),
  /** Per call. */
  seconds: Seconds.default(60),
  /** False: calls have side effects or depend on state, so none is answered from the cache. */
  cached: z.boolean().default(true),
  requestsPerSecond: Rate.default(10),
  usdPerCall: Usd.default(0),
};
const Mcp = z.union(
  [
    z.strictObject({
      command: z.string().min(1),
      arguments: z.array(z.string()).default([]),
      /** Variables that its process gets in addition to PATH, HOME and the like. */
      environment: z.array(Variable).default([]),
      ...McpCommon,
    }),
    z.strictObject({
      url: HttpUrl,
      /** Header -> the variable that holds its entire value (`Authorization` -> `GITHUB_MCP_AUTHORIZATION`). */
      headers: z.record(z.string(), Variable).default({}),
      ...McpCommon,
    }),
  ],
  { error: ({ input, errors }) => mcpFault(input, errors) },
);
export type McpSettings = z.infer<typeof Mcp>;

const Model = z.strictObject({
  model: LanguageModelSpec,
  /** Per answer. */
  maxTokens: z.int().positive().default(2000),
  /** Dollars per million tokens; required by dollar budgets. Null: calls count as free. */
  usdPerMillionTokens: z.strictObject({ input: Usd, output: Usd }).nullable().default(null),
});
export type ModelSettings = z.infer<typeof Model>;

const Limit = z.strictObject({
  calls: z.int().positive().nullable().default(null),
  usd: z.number().positive().nullable().default(null),
});

export const WebSettings = z.strictObject({
  /** Absent: no `search` tool. */
  search: Search.optional(),
  visit: Visit.prefault({}),
  /** The model behind the tool `reason`; absent: no such tool. */
  reason: Model.optional(),
  /** The model that extracts what a goal needs from pages; absent: `visit` takes no goal. */
  extract: Model.optional(),
  /** Server -> how to reach it. Its tools are named `<server>_<tool>`. */
  mcp: z.record(z.string().regex(/^[a-z][a-z0-9]*$/, "must be lower-case letters and digits"), Mcp).default({}),
  cache: z
    .strictObject({
      /** `live`: nothing is stored. `cached`: a repeated request gets the stored answer. `replay`: stored answers only. */
      mode: z.enum(["live", "cached", "replay"]).default("cached"),
      /** The run whose answers are used, in the same store; null: this run's own. */
      run: z.string().min(1).nullable().default(null),
      /** A folder to use instead, for runs that share no store. */
      folder: z.string().min(1).nullable().default(null),
    })
    .refine(({ run, folder }) => run === null || folder === null, { error: "give cache.run or cache.folder, not both" })
    .prefault({}),
  budget: z
    .strictObject({
      /** Per rollout, over all its conversations, cached answers included. When it is spent, tools say so in their responses. */
      rollout: Limit.prefault({}),
      /** Per run, over the calls that reach backends. When it is spent, the run halts. */
      run: Limit.prefault({}),
    })
    .prefault({}),
  /** Pages that leak a benchmark, in addition to those of the known benchmarks (visit/leakage.ts): `host` or `host/path`. */
  blocked: z
    .array(z.string().regex(/^[^/\s:]+(\/\S*)?$/, "must be a host, or host/path, without https://"))
    .default([]),
});
export type WebSettings = z.infer<typeof WebSettings>;

/** The environment variables that the settings name. Their values are secrets. */
export function variablesOf({ search, mcp, reason, extract }: WebSettings): string[] {
  const servers = Object.values(mcp).flatMap((server) =>
    "command" in server ? server.environment : Object.values(server.headers),
  );
  const models = [reason, extract].flatMap((settings) => settings?.model.keyVariable ?? []);
  return [...(search && "keyVariable" in search ? [search.keyVariable] : []), ...servers, ...models];
}
