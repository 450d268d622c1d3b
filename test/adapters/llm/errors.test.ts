/**
 * @file The failure of a request to a model: which failures with status 200 may be charged, and what is said of a failure whose chain of
 * causes is a cycle or ends with an error without a message.
 */
import { APICallError } from "@ai-sdk/provider";
import { expect, test } from "vitest";
import { innermostMessage, mayBeCharged, translateEndpointError } from "../../../adapters/llm/errors.ts";
import { openEndpoint } from "../../../adapters/llm/provider.ts";
import { LanguageModelSpec } from "../../../core/contracts/language-model.ts";

test("an error that is among its own causes is translated", () => {
  const error = new Error("no answer");
  error.cause = new Error("reset", { cause: error });
  const endpoint = openEndpoint(LanguageModelSpec.parse("openai:http://a.test#served"), {});
  expect(translateEndpointError(error, endpoint).message).toBe(
    "model 'served' at http://a.test could not be called: no answer",
  );
});

test("if no address of a host accepts a connection, the code says why, since the error has no message", () => {
  const refused = Object.assign(new AggregateError([new Error("connect ECONNREFUSED ::1:8000")]), {
    code: "ECONNREFUSED",
  });
  expect(innermostMessage(new TypeError("fetch failed", { cause: refused }))).toBe("ECONNREFUSED");
});

const upstream = { code: 502, message: "upstream" };
const unfinished = "Could not finish the message because max_tokens or model output limit was reached.";
const failed = { code: 400, message: "Provider returned error" };

test.each<[boolean, string, object]>([
  [false, "without choices", { error: upstream }],
  [false, "with null choices", { error: upstream, choices: null }],
  [false, "for a bad request", { error: failed }],
  [true, "in the middle of a choice", { error: upstream, choices: [{ text: "The" }] }],
  [true, "that withholds an answer", { error: { code: 400, message: unfinished } }],
  [true, "that withholds an answer, with another code", { error: { code: 502, message: unfinished } }],
  [true, "with the code of an answer that is withheld", { error: { code: "tool_use_failed", message: "failed" } }],
  [true, "that quotes how the provider withholds one", { error: { ...failed, metadata: { raw: "tool_use_failed" } } }],
])("an error with status 200 may be charged if an answer was begun (%s): %s", (charged, _, body) => {
  const call = { url: "http://a.test", requestBodyValues: {}, statusCode: 200, responseBody: JSON.stringify(body) };
  expect(mayBeCharged(new APICallError({ ...call, message: "Invalid JSON response" }))).toBe(charged);
});
