/** @file Requests to an address that the gateway does not serve: the error says what is wrong with it. */
import { expect, test } from "vitest";
import { openHarness } from "./harness.ts";

test("a request outside the base URL and one for another endpoint are told apart", async () => {
  const harness = await openHarness();
  const { main } = harness.open();
  const messageOf = async (url: string) => {
    const response = await fetch(url, { method: "POST", headers: { authorization: `Bearer ${main.apiKey}` } });
    expect(response.status).toBe(404);
    const { error } = (await response.json()) as { error: { message: string } };
    return error.message;
  };
  const { origin } = new URL(main.baseURL);
  expect(await messageOf(`${origin}/v1/chat/completions`)).toMatch(
    /^no such endpoint: POST \/v1\/chat\/completions: .* give the client the whole base URL$/,
  );
  expect(await messageOf(main.baseURL.replace("/v1", "/chat/completions"))).toMatch(
    /^no such endpoint: POST \/gate\/chat\/completions: .*ends in \/v1/,
  );
  expect(await messageOf(`${main.baseURL}/embeddings`)).toMatch(
    /^no such endpoint: POST \/v1\/embeddings: this server has POST \/v1\/chat\/completions, .*elsewhere$/,
  );
  const counting = await fetch(`${main.baseURL}/messages/count_tokens`, { method: "POST" });
  // Anthropic's API has that endpoint, so the error has its format.
  expect(await counting.json()).toMatchObject({ type: "error", error: { type: "not_found_error" } });
});
