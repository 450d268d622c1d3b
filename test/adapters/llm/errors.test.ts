/** @file The failure of a request to a model, if its chain of causes is a cycle. */
import { expect, test } from "vitest";
import { translateEndpointError } from "../../../adapters/llm/errors.ts";
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
