/**
 * @file How a config names a language model behind an API: as an object, or in short form
 *
 *     openai:<base url>#<model>       openai:http://127.0.0.1:8000/v1#Qwen/Qwen3-8B      any OpenAI-compatible server
 *     openai#<model>                  openai#gpt-5-mini                                  OpenAI's own
 *     bedrock[:<region>]#<model>      bedrock:eu-central-1#amazon.nova-pro-v1:0          Amazon Bedrock
 *
 * An agent behind an API has the part before the `#` as its `policy` (for Bedrock with the region) and the part after it as its `model`.
 * API keys are never part of a config, only the names of the environment variables that hold them.
 */
import * as z from "zod";
import type { ConfigFault } from "./config-fault.ts";
import { hasNoCredentials } from "./http-url.ts";

/** OpenAI's own server. */
const OPENAI_URL = "https://api.openai.com/v1";

/** Whether a base URL is OpenAI's own, in any region: only those get OPENAI_API_KEY by default. */
export function isOpenAi(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl);
  return protocol === "https:" && /^([a-z]+\.)?api\.openai\.com$/.test(hostname);
}

/** An API key that is written here by mistake is refused in most cases. The message does not repeat it. */
const KeyVariable = z
  .string()
  .regex(
    /^[A-Z_][A-Z0-9_]*$/,
    "must be the name of an environment variable that holds the key, such as OPENROUTER_API_KEY",
  );

const BaseUrl = z.string().refine(isBaseUrl, {
  error: "the server's base URL, such as http://127.0.0.1:8000/v1: http or https, without user, query or fragment",
});

function isBaseUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  // Looks for ? and # in the text, because a URL object shows an empty query or fragment as none.
  return /^https?:$/.test(new URL(text).protocol) && hasNoCredentials(text) && !/[?#]/.test(text);
}

/** Dollars per million tokens. */
export const TokenPrices = z.strictObject({
  input: z.number().nonnegative().describe("Dollars per million input tokens."),
  output: z.number().nonnegative().describe("Dollars per million output tokens."),
});
export type TokenPrices = z.infer<typeof TokenPrices>;

/** Settings of requests to any API. */
export const EndpointSettings = z.strictObject({
  keyVariable: KeyVariable.optional().describe(
    "Environment variable that holds the API key. Default: OPENAI_API_KEY for OpenAI, AWS_BEARER_TOKEN_BEDROCK or the AWS credentials for Bedrock, none otherwise.",
  ),
  // Node.js itself gives up after 300 seconds.
  timeoutSeconds: z
    .number()
    .positive()
    .max(290)
    .default(120)
    .describe("Seconds that one attempt at a request may take."),
  attempts: z
    .int()
    .positive()
    .default(4)
    .describe(
      "Attempts at one request. Overload, timeouts, lost connections and server errors (408, 409, 424, 425, 429, most 5xx) are retried.",
    ),
});
export type EndpointSettings = z.infer<typeof EndpointSettings>;

const NamedModelSettings = EndpointSettings.extend({
  model: z.string().min(1).describe("The model's name on the server."),
  json: z
    .enum(["schema", "object", "text"])
    .default("schema")
    .describe(
      "How JSON is requested: with its schema, as any object, or by the prompt alone (text). The answer is validated in any case.",
    ),
});

const OpenAiModel = NamedModelSettings.extend({
  provider: z.literal("openai").describe("openai: an OpenAI-compatible server."),
  baseUrl: BaseUrl.default(OPENAI_URL).describe("The server's base URL."),
});

const BedrockModel = NamedModelSettings.extend({
  provider: z.literal("bedrock").describe("bedrock: Amazon Bedrock."),
  region: z
    .string()
    .regex(/^[a-z]{2}(-[a-z]+)+-\d$/, "an AWS region, such as eu-central-1")
    .optional()
    .describe("The AWS region. Default: AWS_REGION."),
  json: z.enum(["schema", "text"]).default("schema").describe("Bedrock takes only schema and text."),
});

const ModelObject = z.discriminatedUnion("provider", [OpenAiModel, BedrockModel]);

const SHORT = /^(openai|bedrock)(?::([^#]+))?#(.+)$/s;

/** A model behind an API. Both forms parse to an object. */
export const LanguageModelSpec: z.ZodType<
  z.infer<typeof ModelObject>,
  string | z.input<typeof ModelObject>
> = z.preprocess((value, context) => (typeof value === "string" ? readShort(value, context) : value), ModelObject);
export type LanguageModelSpec = z.infer<typeof LanguageModelSpec>;
/** As a config writes it: in short form, such as `openai#gpt-5-mini`, or as an object without the defaults. */
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

/** @param where the base URL or region. Empty: the default. */
function specOf(provider: "openai" | "bedrock", where: string, model: string): z.input<typeof ModelObject> {
  if (provider === "openai") return { provider, model, ...(where && { baseUrl: where }) };
  return { provider, model, ...(where && { region: where }) };
}

/** Settings of requests to an agent behind an API. */
export const AgentEndpointSettings = EndpointSettings.extend({
  calls: z
    .enum(["native", "text"])
    .default("native")
    .describe(
      "How tools are called: by the API's own tool calls, or as text in Qwen's format, for servers without tool calls.",
    ),
  usdPerMillionTokens: TokenPrices.nullable()
    .default(null)
    .describe("Prices of the agent's tokens, which count toward budget.usd. Null: they have no price."),
});
export type AgentEndpointSettings = z.infer<typeof AgentEndpointSettings>;

interface AgentWithPolicy {
  readonly policy: string;
  readonly model: string;
  readonly trained: boolean;
  readonly thinking?: boolean;
  readonly toolPrompt?: string;
  readonly limits: { readonly responseTokens?: number };
  readonly endpoint?: AgentEndpointSettings | undefined;
}

export const isEndpointPolicy = (policy: string): boolean => /^(openai|bedrock)(:|$)/.test(policy);

/** The model behind an agent's policy, `openai[:<base url>]` or `bedrock:<region>`. */
export function endpointOf({
  policy,
  model,
  endpoint,
}: Omit<AgentWithPolicy, "trained" | "thinking" | "toolPrompt" | "limits">): LanguageModelSpecInput {
  const { calls: _, usdPerMillionTokens: _price, ...settings } = endpoint ?? AgentEndpointSettings.parse({});
  const where = policy.replace(/^[a-z]+:?/, "");
  return { ...specOf(policy.startsWith("openai") ? "openai" : "bedrock", where, model), ...settings };
}

/** Settings that an agent behind an API must not have, and `endpoint` without an API: path within the agent's settings, and message. */
export function endpointFaults(agent: AgentWithPolicy): ConfigFault[] {
  const { policy, trained, thinking, toolPrompt = "auto", limits, endpoint } = agent;
  if (!isEndpointPolicy(policy)) {
    return endpoint
      ? [[["endpoint"], `does nothing with policy '${policy}': remove it, or name an API as the policy`]]
      : [];
  }
  if (trained) return [[["trained"], `a model behind an API ('${policy}') cannot be trained: set it to false`]];
  if (thinking !== undefined) return [[["thinking"], `its server decides with policy '${policy}': remove it`]];
  if (toolPrompt !== "auto") {
    const message = `does nothing with policy '${policy}': set it to auto; endpoint.calls says how tools are called`;
    return [[["toolPrompt"], message]];
  }
  if (limits.responseTokens !== undefined) {
    return [[["limits", "responseTokens"], "only its server can count its tokens: set responseCharacters instead"]];
  }
  // A worker's AWS_REGION is the region of the run's store, not the model's.
  if (/^bedrock:?$/.test(policy)) return [[["policy"], "no region is given: write bedrock:<region>"]];
  if (policy === "openai:") {
    return [[["policy"], "no base URL is given: write openai:<base url>, or openai for OpenAI's own server"]];
  }
  // Without the settings in `endpoint`, whose schema has checked them: their faults are not the policy's.
  const { error } = LanguageModelSpec.safeParse(endpointOf({ policy, model: agent.model }));
  return (error?.issues ?? []).map(({ path, message }) => [[path[0] === "model" ? "model" : "policy"], message]);
}
