/**
 * @file The settings of web tools: a recipe's `config.tools`, if its tools.ts opens them (open.ts). Strict; the defaults are
 * recommended. A setting names the worker's environment variable that holds a key, never the key itself. docs/configuration.md is generated
 * from the descriptions.
 */
import * as z from "zod";
import { HttpUrl } from "../../../core/contracts/http-url.ts";
import { LanguageModelSpec, TokenPrices } from "../../../core/contracts/language-model.ts";

/** A name only: a key entered by mistake seldom matches, and the error does not repeat it. */
const Variable = z.string().regex(/^[A-Z_][A-Z0-9_]*$/, "must be the name of an environment variable");

const rate = (perSecond: number) =>
  z
    .number()
    .positive()
    .default(perSecond)
    .describe(
      "Requests per second of each worker process. Workers do not share this limit: divide your plan's rate by their number.",
    );
const price = (usd: number) =>
  z.number().nonnegative().default(usd).describe("Price of a request in dollars, which counts toward budgets.");
/** At most the longest wait of a Node.js timer, 2^31 - 1 ms: a longer one ends at once. */
const Seconds = z.number().positive().max(2_147_483);

const apiUrl = (url: string) => HttpUrl.default(url).describe("The address of the API.");
const searchKey = (name: string) => Variable.default(name).describe("Environment variable that holds the API key.");
const Results = z.int().min(1).max(20).default(10).describe("Results requested and shown.");

/** `usdPerCall`: the pay-as-you-go list price at the time of writing. */
const SearchSettings = z.discriminatedUnion("backend", [
  z.strictObject({
    backend: z.literal("serper").describe("serper: Google's results."),
    url: apiUrl("https://google.serper.dev/search"),
    keyVariable: searchKey("SERPER_API_KEY"),
    results: Results,
    requestsPerSecond: rate(10),
    usdPerCall: price(0.001),
  }),
  z.strictObject({
    backend: z.literal("tavily").describe("tavily: Tavily's results, at basic search depth."),
    url: apiUrl("https://api.tavily.com/search"),
    keyVariable: searchKey("TAVILY_API_KEY"),
    results: Results,
    requestsPerSecond: rate(1.5),
    usdPerCall: price(0.008),
  }),
  z.strictObject({
    backend: z.literal("brave").describe("brave: results from Brave's own index."),
    url: apiUrl("https://api.search.brave.com/res/v1/web/search"),
    keyVariable: searchKey("BRAVE_API_KEY"),
    results: Results,
    requestsPerSecond: rate(10),
    usdPerCall: price(0.005),
  }),
  z.strictObject({
    backend: z.literal("searxng").describe("searxng: your own instance."),
    url: HttpUrl.describe(
      "For searxng, your instance, which must be able to answer in JSON (search.formats in its settings.yml).",
    ),
    results: Results,
    requestsPerSecond: rate(2),
    usdPerCall: price(0),
  }),
]);
export type SearchSettings = z.infer<typeof SearchSettings>;

const Visit = z.strictObject({
  maxBytes: z.int().positive().default(10_000_000).describe("Maximum bytes of a response body, after decompression."),
  seconds: Seconds.default(30).describe(
    "Seconds that one attempt to fetch a page may take, redirects and body included. There are up to three attempts.",
  ),
  redirects: z.int().nonnegative().default(5).describe("Maximum number of redirects to follow."),
  maxCharacters: z
    .int()
    .positive()
    .default(500_000)
    .describe("Maximum characters of a page's text. The rest is cut off."),
  requestsPerSecond: rate(10),
  usdPerCall: price(0),
  allowAddresses: z
    .array(z.union([z.cidrv4(), z.cidrv6()]))
    .default([])
    .describe("For closed networks: address ranges (CIDR) that may be contacted although they are not public."),
});
export type VisitSettings = z.infer<typeof Visit>;

/** What is wrong with a server's settings: the faults of the variant that they name (command or url), or that they name neither or both. */
function mcpFault(input: unknown, [ofCommand = [], ofUrl = []]: readonly (readonly z.core.$ZodIssue[])[]): string {
  const names = input !== null && typeof input === "object" ? Object.keys(input) : [];
  const isCommand = names.includes("command");
  if (isCommand === names.includes("url")) {
    return "give either a command (a server on the worker's machine) or a url (streamable HTTP)";
  }
  const issues = isCommand ? ofCommand : ofUrl;
  return issues.map(({ path, message }) => (path.length > 0 ? `${path.join(".")}: ${message}` : message)).join("; ");
}

const KEY_WORD = /^(?:api|access)?(?:key|token|secret|password|auth|authorization|sig|signature)$/i;
const WORD_BREAK = /[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])/;

/** Whether the last word of a parameter's name says that it holds a key: `apiKey`, `access_token`; not `maxTokens`, `keywords` or `author`. */
const namesKey = (parameter: string): boolean => KEY_WORD.test(parameter.split(WORD_BREAK).at(-1) ?? "");

/** The run's config records the URL. */
function refuseKeyInQuery(url: string, context: z.RefinementCtx): void {
  if (!URL.canParse(url)) return;
  const secret = [...new URL(url).searchParams.keys()].find(namesKey);
  if (secret !== undefined)
    context.addIssue(
      `its parameter ${secret} would be recorded: let query name the environment variable that holds it; a run that recorded it cannot resume: start another`,
    );
}

const McpCommon = {
  only: z.array(z.string()).min(1).nullable().default(null).describe("The server's tools to offer. Null: all."),
  without: z.array(z.string()).default([]).describe("Tools of the server that are not offered."),
  seconds: Seconds.default(60).describe("Seconds that one call may take."),
  cached: z
    .boolean()
    .default(true)
    .describe("Whether the cache answers repeated calls. Set false if calls change something or depend on state."),
  requestsPerSecond: rate(10),
  usdPerCall: price(0),
};
const Mcp = z.union(
  [
    z.strictObject({
      command: z.string().min(1).describe("Command that starts a server on the worker's machine. Set this or url."),
      arguments: z.array(z.string()).default([]).describe("Arguments of command."),
      environment: z
        .array(Variable)
        .default([])
        .describe("Environment variables that its process gets in addition to PATH, HOME and the like."),
      ...McpCommon,
    }),
    z.strictObject({
      url: HttpUrl.superRefine(refuseKeyInQuery).describe(
        "URL of a server that speaks streamable HTTP. Set this or command.",
      ),
      headers: z
        .record(z.string(), Variable)
        .default({})
        .describe("For each header, such as Authorization: the environment variable that holds its entire value."),
      query: z
        .record(z.string().min(1), Variable)
        .default({})
        .describe(
          "For each parameter of the URL's query, such as apiKey: the environment variable that holds its value.",
        ),
      ...McpCommon,
    }),
  ],
  { error: ({ input, errors }) => mcpFault(input, errors) },
);
export type McpSettings = z.infer<typeof Mcp>;

const Model = z.strictObject({
  model: LanguageModelSpec.describe("The model, such as 'openai#gpt-5-mini', or an object."),
  maxTokens: z.int().positive().default(2000).describe("Maximum tokens of one answer."),
  usdPerMillionTokens: TokenPrices.nullable()
    .default(null)
    .describe("Prices of its tokens, which budgets in dollars require. Null: calls count as free."),
});
export type ModelSettings = z.infer<typeof Model>;

/** What a budget counts, and what happens when it is spent. */
const limitOn = (counted: string, spent: string) =>
  z
    .strictObject({
      calls: z.int().positive().nullable().default(null).describe(`Requests ${counted}. ${spent} Null: no limit.`),
      usd: z.number().positive().nullable().default(null).describe(`Dollars ${counted}. ${spent} Null: no limit.`),
    })
    .prefault({});

export const WebSettings = z.strictObject({
  search: SearchSettings.optional().describe("The search engine behind the search tool. Absent: no such tool."),
  visit: Visit.prefault({}).describe("How pages are opened."),
  reason: Model.optional().describe("The model behind the reason tool. Absent: no such tool."),
  extract: Model.optional().describe(
    "The model that extracts what a goal needs from pages. Absent: visit takes no goal.",
  ),
  mcp: z
    .record(z.string().regex(/^[a-z][a-z0-9]*$/, "must be a lower-case letter, then lower-case letters or digits"), Mcp)
    .default({})
    .describe("MCP servers by name. Their tools are named <server>_<tool>."),
  cache: z
    .strictObject({
      mode: z
        .enum(["live", "cached", "replay"])
        .default("cached")
        .describe(
          "live: nothing is stored. cached: a repeated request gets the stored response. replay: stored responses only.",
        ),
      run: z
        .string()
        .min(1)
        .nullable()
        .default(null)
        .describe("The run whose responses are used, in the same store. Null: this run's own."),
      folder: z
        .string()
        .min(1)
        .nullable()
        .default(null)
        .describe("Folder to use instead, for runs that share no store. Null: the store."),
    })
    .refine(({ run, folder }) => run === null || folder === null, { error: "give cache.run or cache.folder, not both" })
    .prefault({})
    .describe("Where responses are stored and taken from."),
  budget: z
    .strictObject({
      rollout: limitOn(
        "of one rollout, in all its conversations, counting cached responses",
        "Once spent, calls return a message that says so.",
      ).describe("The budget of each rollout."),
      run: limitOn("of the run, not counting cached responses", "Once spent, the run halts.").describe(
        "The budget of the run.",
      ),
    })
    .prefault({})
    .describe("Limits on the requests of tools."),
  blocked: z
    .array(z.string().regex(/^[^/\s:]+(\/\S*)?$/, "must be a host, or host/path, without https://"))
    .default([])
    .describe(
      "Hosts, or host/path, that are neither opened nor shown as search results, in addition to pages that leak a known benchmark.",
    ),
});
export type WebSettings = z.infer<typeof WebSettings>;

/** The environment variables that the settings name. Their values are secrets. */
export function variablesOf({ search, mcp, reason, extract }: WebSettings): string[] {
  const servers = Object.values(mcp).flatMap((server) =>
    "command" in server ? server.environment : [...Object.values(server.headers), ...Object.values(server.query)],
  );
  const models = [reason, extract].flatMap((settings) => settings?.model.keyVariable ?? []);
  return [...(search && "keyVariable" in search ? [search.keyVariable] : []), ...servers, ...models];
}
