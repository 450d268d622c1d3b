/**
 * @file Rewrites the arguments of tool calls to OpenAI's form, JSON in a string: the AI SDK refuses any other. text-generation-inference and
 * some versions of llama.cpp send an object, and a call of a tool without parameters may have no arguments at all.
 */
import * as z from "zod";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";

const CallWithArguments = z.looseObject({ function: z.looseObject({ name: z.string() }).transform(withArguments) });
const CompletionWithCalls = z.looseObject({
  choices: z.array(z.looseObject({ message: z.looseObject({ tool_calls: z.array(CallWithArguments) }) })),
});

function withArguments(call: { readonly [key: string]: unknown }) {
  const given = call["arguments"] ?? {};
  return { ...call, arguments: typeof given === "string" ? given : JSON.stringify(given) };
}

/** A body that is not a completion with tool calls is returned unchanged. */
function withStringArguments(body: string): string {
  if (!body.includes('"tool_calls"')) return body;
  const { data } = CompletionWithCalls.safeParse(jsonOrUndefined(body));
  return data ? JSON.stringify(data) : body;
}

/** The response with its body rewritten. If the body breaks off, so does the result's. */
export function rewriteArguments(response: Response): Response {
  if (!response.body) return response;
  const chunks: Uint8Array[] = [];
  const rewriting = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk) => void chunks.push(chunk),
    flush: (controller) => controller.enqueue(Buffer.from(withStringArguments(Buffer.concat(chunks).toString()))),
  });
  return new Response(response.body.pipeThrough(rewriting), response);
}
