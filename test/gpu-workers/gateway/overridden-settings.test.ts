/** @file Request settings that have no effect in training, and refused requests: the log names each of them once. */
import { expect, test } from "vitest";
import { openHarness } from "./harness.ts";

const tool = (offer: object) => ({ type: "function", function: offer });

test("every setting without effect is logged once, whichever API and request it comes from", async () => {
  const harness = await openHarness();
  const { main } = harness.open();
  const post = async (path: string, body: object) => {
    const response = await fetch(main.baseURL + path, {
      method: "POST",
      headers: { authorization: `Bearer ${main.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "main", ...body }),
    });
    expect(response.status).toBe(200);
  };
  const messages = [{ role: "user", content: "say hello" }];
  await post("/chat/completions", { messages, temperature: 0.3 });
  await post("/chat/completions", { messages, temperature: 0.3, verbosity: "low", reasoning_effort: null });
  await post("/chat/completions", { messages, verbosity: "high" });
  await post("/chat/completions", { messages, top_k: 20, min_p: 0, repetition_penalty: 1.05 });
  const lookup = { name: "lookup", strict: true };
  await post("/chat/completions", { messages: [{ ...messages[0], name: "ada" }], tools: [tool(lookup)] });
  await post("/chat/completions", { messages, tools: [tool({ ...lookup, strict: false })] });
  await post("/responses", { input: "say hello", text: { verbosity: "low" } });
  await post("/messages", { messages, max_tokens: 50, output_config: { effort: "low" } });
  const failed = { type: "tool_result", tool_use_id: "a", is_error: true, content: "away" };
  const use = { type: "tool_use", id: "a", name: "lookup", input: {} };
  const history = [...messages, { role: "assistant", content: [use] }, { role: "user", content: [failed] }];
  await post("/messages", { messages: history, max_tokens: 50 });
  const warned = harness.lines.map((line) => JSON.parse(line)).filter(({ what }) => /have no effect/.test(what));
  expect(warned.map(({ settings }) => settings)).toEqual([
    "temperature",
    "verbosity",
    "top_k, min_p, repetition_penalty",
    "messages.*.name, tools.*.function.strict",
    "text.verbosity",
    "output_config.effort",
    "messages.*.content.*.is_error",
  ]);
});

test("a refused request is logged once for each kind, since the app may have caught its error", async () => {
  const harness = await openHarness();
  const { main } = harness.open();
  const refusedWith = async (body: object, key = main.apiKey) => {
    const response = await fetch(`${main.baseURL}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "main", ...body }),
    });
    return response.status;
  };
  const question = { role: "user", content: "say hello" };
  const image = { role: "user", content: [{ type: "image_url", image_url: { url: "data:" } }] };
  const messages = [question];
  expect(await refusedWith({ messages, response_format: { type: "json_object" } })).toBe(400);
  expect(await refusedWith({ messages, response_format: { type: "json_schema" } })).toBe(400);
  expect(await refusedWith({ messages: [image] })).toBe(400);
  expect(await refusedWith({ messages: [question, image] })).toBe(400);
  expect(await refusedWith({ messages, logit_bias: {} })).toBe(400);
  expect(await refusedWith({ messages, model: "gpt-5" })).toBe(404);
  expect(await refusedWith({ messages }, "no-key")).toBe(401);
  const warned = harness.lines.map((line) => JSON.parse(line)).filter(({ what }) => what === "a request was refused");
  expect(warned.map(({ reason }) => reason)).toEqual([
    expect.stringMatching(/format cannot be forced/),
    expect.stringMatching(/^messages\.0\.content: a part of type 'image_url' is not supported/),
    expect.stringMatching(/^logit_bias: /),
    expect.stringMatching(/^'gpt-5' is not an agent/),
  ]);
});
