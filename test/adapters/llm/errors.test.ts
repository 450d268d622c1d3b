/** @file The failure of a request to a model, if its chain of causes is a cycle or ends with an error without a message. */
import { expect, test } from "vitest";
import { innermostMessage, translateEndpointError } from "../../../adapters/llm/errors.ts";
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
