/** @file The LanguageModel port on an OpenAI-compatible server or Amazon Bedrock, through the AI SDK. */
import type { JSONSchema7, LanguageModelV3Prompt } from "@ai-sdk/provider";
import * as z from "zod";
import { LanguageModelSpec, type LanguageModelSpecInput } from "../../core/contracts/language-model.ts";
import { jsonOrUndefined, parse } from "../../core/contracts/parse.ts";
import type { LanguageModel } from "../../core/language-model-ports.ts";
import type { ChatMessage, Environment } from "../../core/ports.ts";
import { requestCompletion } from "./ask.ts";
import { EndpointFailure } from "./errors.ts";
import { openEndpoint } from "./provider.ts";

export interface OpenModelOptions {
  /** For API keys and AWS_REGION. Default: the environment of the process. */
  readonly environment?: Environment;
  /**
   * Base of the exponential backoff: the second attempt waits 1 to 2 times this, at random, after any Retry-After; each later one twice as
   * long, at most 60 s. Default: 1.
   */
  readonly pauseSeconds?: number;
}

/**
 * Opens a model without calling it. Throws `config-invalid` if the spec is invalid, if its key's environment variable is unset or blank, or if
 * Bedrock has no region.
 * @param spec an object, or its short form, such as `openai:<base url>#<model>`.
 */
export function openLanguageModel(spec: LanguageModelSpecInput, options: OpenModelOptions = {}): LanguageModel {
  const settings = parse(LanguageModelSpec, spec, "language model", "config-invalid");
  const endpoint = openEndpoint(settings, options.environment ?? process.env);
  const retryPolicy = { ...settings, ...options };
  return {
    async complete({ messages, schema, temperature, maxTokens, onUnknownUsage }, signal) {
      const jsonSchema = schema && (z.toJSONSchema(schema) as JSONSchema7);
      const { content, stop, usage } = await requestCompletion(
        endpoint,
        {
          prompt: [
            ...(jsonSchema && settings.json !== "schema" ? [instruction(jsonSchema)] : []),
            ...messages.map(messageOf),
          ],
          ...(temperature !== undefined && { temperature }),
          ...(maxTokens !== undefined && { maxOutputTokens: maxTokens }),
          ...(jsonSchema && settings.json !== "text" && { responseFormat: { type: "json", schema: jsonSchema } }),
        },
        { ...retryPolicy, ...(onUnknownUsage && { onUnknownUsage }) },
        signal,
      );
      const text = content.flatMap((part) => (part.type === "text" ? part.text : [])).join("");
      if (!schema) return { text, usage };
      const fault = faultOf(schema, jsonIn(text));
      if (fault === undefined) return { text: jsonIn(text), usage };
      const truncation =
        stop === "length"
          ? `, truncated after ${usage.outputTokens} tokens: raise maxTokens, or shorten the prompt if the model's context is full`
          : "";
      const hint = truncation || formatHint(settings);
      const refusal = `${endpoint.name} gave an answer that does not match the schema (${fault})${hint}`;
      throw new EndpointFailure("endpoint-refused", refusal, { usage });
    },
  };
}

function instruction(schema: JSONSchema7): LanguageModelV3Prompt[number] {
  return { role: "system", content: `Answer with JSON of this schema, and nothing else:\n${JSON.stringify(schema)}` };
}

/** Formats a tool's response as Qwen's template does: APIs accept tool messages only in answer to their own calls. */
function messageOf({ role, content }: ChatMessage): LanguageModelV3Prompt[number] {
  if (role === "system") return { role, content };
  if (role === "assistant") return { role, content: [{ type: "text", text: content }] };
  const text = role === "tool" ? `<tool_response>\n${content}\n</tool_response>` : content;
  return { role: "user", content: [{ type: "text", text }] };
}

/** Suggests the weaker ways to request JSON, for a server that ignores the one that is set. */
function formatHint({ provider, json }: LanguageModelSpec): string {
  if (json === "text") return "";
  if (json === "object") return `: if the server does not support JSON output, set json to "text"`;
  const others = provider === "openai" ? `"object" or "text"` : `"text"`;
  return `: if the server does not support schemas, set json to ${others}`;
}

/**
 * The JSON without the thinking before it and the fence around it, which many models write. Thinking and JSON may both quote `</think>`:
 * of the whole text and of what follows each `</think>`, the longest that parses is the answer.
 */
function jsonIn(text: string): string {
  const answers = text.split("</think>").map((_, i, parts) => unfenced(parts.slice(i).join("</think>")));
  return answers.find((answer) => jsonOrUndefined(answer) !== undefined) ?? answers.at(-1) ?? "";
}

function unfenced(text: string): string {
  const answer = text.trim();
  return /^```(?:json)?\s*\n(.*)\n```$/s.exec(answer)?.[1]?.trim() ?? answer;
}

function faultOf(schema: z.ZodType, text: string): string | undefined {
  const value = jsonOrUndefined(text);
  if (value === undefined) return "not JSON";
  const issue = schema.safeParse(value).error?.issues[0];
  return issue && [issue.path.join("."), issue.message].filter(Boolean).join(": ");
}
