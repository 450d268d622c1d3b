/** @file Opens the AI SDK's model for a spec. Its key comes from the environment and is kept out of messages and answers. */
import type { LanguageModelV3 } from "@ai-sdk/provider";
import { isOpenAi, type LanguageModelSpec } from "../../core/contracts/language-model.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Environment } from "../../core/ports.ts";
import { type Redact, redactor } from "../../core/redact.ts";
import { withinLimit } from "../response-limit.ts";
import { rewriteArguments } from "./written-arguments.ts";

export interface Endpoint {
  /** Loads the SDK on the first call. */
  model(): Promise<LanguageModelV3>;
  /** For messages: `model 'x' at <base URL>`, or `model 'x' at Amazon Bedrock`, with the region if the spec names one. */
  readonly name: string;
  /** What to do if the server refuses the credentials, as a clause. */
  readonly credentialAdvice: string;
  /** Replaces the key in what the server sends. */
  readonly redact: Redact;
}

/** Throws `config-invalid` if the key's environment variable is unset or blank, or if Bedrock has no region. */
export function openEndpoint(spec: LanguageModelSpec, environment: Environment): Endpoint {
  const variable = spec.keyVariable ?? defaultVariable(spec, environment);
  const key = variable && environment[variable]?.trim();
  const at = spec.provider === "openai" ? spec.baseUrl : `Amazon Bedrock${spec.region ? ` in ${spec.region}` : ""}`;
  const name = `model '${spec.model}' at ${at}`;
  if (variable && !key) {
    throw new MgrpoError("config-invalid", `${name}: the environment variable ${variable} holds no key: set it`);
  }
  const redact = redactor(key ? [key] : []);
  if (spec.provider === "bedrock") {
    const credentials = variable ? `the key in ${variable}` : "the AWS credentials (AWS_PROFILE, or AWS_ACCESS_KEY_ID)";
    return {
      model: lazily(bedrock(spec, key, environment)),
      name,
      credentialAdvice: `check ${credentials}`,
      redact,
    };
  }
  const credentialAdvice = variable
    ? `check the key in ${variable}`
    : "no key was sent: set keyVariable to the environment variable that holds it";
  return { model: lazily(openAi(spec, key)), name, credentialAdvice, redact };
}

/** The variable to read if the spec names none: a well-known key is sent only to its own service, never to another base URL. */
function defaultVariable(spec: LanguageModelSpec, environment: Environment): string | undefined {
  if (spec.provider === "openai") return isOpenAi(spec.baseUrl) ? "OPENAI_API_KEY" : undefined;
  return environment["AWS_BEARER_TOKEN_BEDROCK"] ? "AWS_BEARER_TOKEN_BEDROCK" : undefined;
}

const fetchWithinLimit = withinLimit(fetch);

type LoadModel = () => Promise<LanguageModelV3>;

function lazily(load: LoadModel): LoadModel {
  let loaded: Promise<LanguageModelV3> | undefined;
  return () => {
    loaded ??= load();
    return loaded;
  };
}

/** The error of a server whose model takes only `max_completion_tokens`. The base URL does not always tell: Azure serves OpenAI's newer models too. */
const REFUSES_MAX_TOKENS = /'max_tokens' is not supported.*'max_completion_tokens'/s;

function openAi(spec: Extract<LanguageModelSpec, { provider: "openai" }>, key: string | undefined): LoadModel {
  return async () => {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    // OpenAI's newer models reject `max_tokens`; other servers may know only that name.
    let takesMaxTokens = !isOpenAi(spec.baseUrl);
    const fetchRenamingLimit: typeof fetch = async (url, init) => {
      const response = await fetchWithinLimit(url, init);
      if (response.status !== 400 || !REFUSES_MAX_TOKENS.test(await response.clone().text())) return response;
      const body = JSON.parse(String(init?.body)) as Record<string, unknown>;
      if (body["max_tokens"] === undefined) return response;
      takesMaxTokens = false;
      return fetchWithinLimit(url, { ...init, body: JSON.stringify(withMaxCompletionTokens(body)) });
    };
    const provider = createOpenAICompatible({
      name: "openai-compatible",
      baseURL: spec.baseUrl,
      ...(key && { apiKey: key }),
      supportsStructuredOutputs: spec.json === "schema",
      transformRequestBody: (body) => (takesMaxTokens ? body : withMaxCompletionTokens(body)),
      fetch: async (url, init) => {
        const response = await fetchRenamingLimit(url, init);
        return response.status === 200 ? rewriteArguments(response) : response;
      },
    });
    return provider.chatModel(spec.model);
  };
}

const withMaxCompletionTokens = ({ max_tokens, ...body }: Record<string, unknown>) => ({
  ...body,
  max_completion_tokens: max_tokens,
});

function bedrock(
  spec: Extract<LanguageModelSpec, { provider: "bedrock" }>,
  key: string | undefined,
  environment: Environment,
): LoadModel {
  const region = spec.region ?? environment["AWS_REGION"];
  if (!region) {
    throw new MgrpoError(
      "config-invalid",
      `model '${spec.model}' at Amazon Bedrock: no region is given: write bedrock:<region>, or set AWS_REGION`,
    );
  }
  return async () => {
    const { createAmazonBedrock } = await import("@ai-sdk/amazon-bedrock");
    const { defaultProvider } = await import("@aws-sdk/credential-provider-node");
    // An empty key stops the SDK from reading one from the environment.
    const provider = createAmazonBedrock({
      region,
      apiKey: key ?? "",
      credentialProvider: defaultProvider(),
      fetch: fetchWithinLimit,
    });
    return provider.languageModel(spec.model);
  };
}
