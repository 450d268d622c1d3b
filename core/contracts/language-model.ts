/**
 * @file Which language model behind an API is meant, as configs say it: an object, or in short
 *
 *     openai:<base url>#<model>       openai:http://127.0.0.1:8000/v1#Qwen/Qwen3-8B      any OpenAI-compatible server
 *     openai#<model>                  openai#gpt-5-mini                                  OpenAI's own
 *     bedrock[:<region>]#<model>      bedrock:eu-central-1#amazon.nova-pro-v1:0          Amazon Bedrock
 *
 * What stands before the `#` is also an agent's `policy`, whose `model` is what stands after it. Keys are never written here: an
 * environment variable is named that holds one.
 */
import * as z from "zod";

/** Of OpenAI itself: the only server that is sent OPENAI_API_KEY without being told to. */
export const OPENAI_URL = "https://api.openai.com/v1";

/** The name alone; a key that was written in its place does not fit, and is not repeated in the message. */
const KeyVariable = z
  .string()
  .regex(/^[A-Z_][A-Z0-9_]*$/, "the name of an environment variable that holds the key, such as OPENROUTER_API_KEY");

const BaseUrl = z.string().refine(isBaseUrl, {
  error: "the server's base URL, such as http://127.0.0.1:8000/v1: http or https, without user, query or fragment",
});

function isBaseUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === "";
}

/** How an API is asked, whatever for. */
export const EndpointSettings = z.strictObject({
  /** Environment variable that holds the key. By default OPENAI_API_KEY for OpenAI itself, AWS_BEARER_TOKEN_BEDROCK if set or the AWS credentials for Bedrock, none for other servers. */
  keyVariable: KeyVariable.optional(),
  /** Of one try. Node.js itself gives up after 300. */
  timeoutSeconds: z.number().positive().max(290).default(120),
  /** Tries of one request, as far as 429, 5xx, time-outs and lost connections spoil them. */
  attempts: z.int().positive().default(4),
});
export type EndpointSettings = z.infer<typeof EndpointSettings>;

const Asked = EndpointSettings.extend({
  /** As the server calls it. */
  model: z.string().min(1),
  /**
   * How JSON is asked for: by its `schema`, as an `object` of which the prompt says the schema, or by the prompt alone (`text`). It is checked
   * in any case.
   */
  json: z.enum(["schema", "object", "text"]).default("schema"),
});

const OpenAiModel = Asked.extend({ provider: z.literal("openai"), baseUrl: BaseUrl.default(OPENAI_URL) });

const BedrockModel = Asked.extend({
  provider: z.literal("bedrock"),
  /** By default AWS_REGION. */
  region: z
    .string()
    .regex(/^[a-z]{2}(-[a-z]+)+-\d$/, "an AWS region, such as eu-central-1")
    .optional(),
  json: z.enum(["schema", "text"]).default("schema"),
});

const ModelObject = z.discriminatedUnion("provider", [OpenAiModel, BedrockModel]);

const SHORT = /^(openai|bedrock)(?::([^#]*))?#(.+)$/s;

/** A model behind an API. Both forms parse to the object. */
export const LanguageModelSpec: z.ZodType<
  z.infer<typeof ModelObject>,
  string | z.input<typeof ModelObject>
> = z.preprocess((value, context) => (typeof value === "string" ? readShort(value, context) : value), ModelObject);
export type LanguageModelSpec = z.infer<typeof LanguageModelSpec>;
export type LanguageModelSpecInput = z.input<typeof LanguageModelSpec>;

function readShort(text: string, context: z.RefinementCtx): z.input<typeof ModelObject> {
  const [, provider, where = "", model] = SHORT.exec(text) ?? [];
  if (model !== undefined) return specOf(provider === "openai" ? provider : "bedrock", where, model);
  context.addIssue({
    code: "custom",
    message: "write openai:<base url>#<model>, openai#<model> or bedrock[:<region>]#<model>",
  });
  return z.NEVER;
}

/** @param where base URL or region; empty: the default. */
function specOf(provider: "openai" | "bedrock", where: string, model: string): z.input<typeof ModelObject> {
  if (provider === "openai") return { provider, model, ...(where && { baseUrl: where }) };
  return { provider, model, ...(where && { region: where }) };
}

/** How an agent behind an API is asked. */
export const AgentEndpoint = EndpointSettings.extend({
  /** `native`: by the API's own tool calls. `text`: in Qwen's format, which the system message explains, for servers that have none. */
  calls: z.enum(["native", "text"]).default("native"),
  /** What its turns cost counts for `budget.usd`. Null: they have no price here. */
  usdPerMillionTokens: z
    .strictObject({ input: z.number().nonnegative(), output: z.number().nonnegative() })
    .nullable()
    .default(null),
});
export type AgentEndpoint = z.infer<typeof AgentEndpoint>;

interface PolicyOfAgent {
  readonly policy: string;
  readonly model: string;
  readonly trained: boolean;
  readonly thinking?: boolean;
  readonly limits: { readonly responseTokens?: number };
  readonly endpoint?: AgentEndpoint | undefined;
}

export const isEndpointPolicy = (policy: string): boolean => /^(openai|bedrock)(:|$)/.test(policy);

/** The model behind an agent's policy, `openai[:<base url>]` or `bedrock:<region>`. */
export function endpointOf({
  policy,
  model,
  endpoint,
}: Omit<PolicyOfAgent, "trained" | "thinking" | "limits">): LanguageModelSpecInput {
  const { calls: _, usdPerMillionTokens: _price, ...settings } = endpoint ?? AgentEndpoint.parse({});
  const where = policy.replace(/^[a-z]+:?/, "");
  return { ...specOf(policy.startsWith("openai") ? "openai" : "bedrock", where, model), ...settings };
}

/** What does not fit between an agent's settings and its being behind an API, or not: path and message. */
export function endpointFaults(agent: PolicyOfAgent): (readonly [path: string, message: string])[] {
  const { policy, trained, thinking, limits, endpoint } = agent;
  if (!isEndpointPolicy(policy)) {
    return endpoint
      ? [["endpoint", `does nothing with policy '${policy}': remove it, or name an API as the policy`]]
      : [];
  }
  if (trained) return [["trained", `a model behind an API ('${policy}') cannot be trained: set it to false`]];
  if (thinking !== undefined) return [["thinking", `its server decides with policy '${policy}': remove it`]];
  if (limits.responseTokens !== undefined) {
    return [["limits", "responseTokens: its server alone counts its tokens: set responseCharacters instead"]];
  }
  // A worker's own AWS_REGION is that of the run's store.
  if (policy === "bedrock") return [["policy", "in which region? Write bedrock:<region>"]];
  const { error } = LanguageModelSpec.safeParse(endpointOf(agent));
  return (error?.issues ?? []).map(({ path, message }) => [path[0] === "model" ? "model" : "policy", message] as const);
}
