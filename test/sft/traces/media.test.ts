/** @file Images, audio and files in a conversation: it is skipped, however its recorder wrote them. JSON of a tool or an answer is not one. */
import { expect, test } from "vitest";
import type { JsonValue } from "../../../sft/traces/json.ts";
import { calls, responds, span, spans } from "../../fixtures/traces.ts";
import { ANSWER, chatTrace, imported, QUESTION } from "./imported.ts";

const SKIPPED = { "it has images, audio or files": 1 };

/** As OpenLLMetry records a call: content that is a list is written as JSON text. */
const written = (content: JsonValue) =>
  spans(
    span({
      attributes: {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": JSON.stringify(content),
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Here.",
      },
    }),
  );

test.each<[string, JsonValue]>([
  ["OpenAI's chat completions", { type: "image_url", image_url: { url: "https://example.com/map.png" } }],
  ["OpenAI's responses", { type: "input_image", image_url: "https://example.com/map.png" }],
  ["OpenAI's audio", { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }],
  ["Anthropic", { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } }],
  ["the AI SDK", { type: "file", data: "AAAA", mediaType: "application/pdf" }],
  ["Bedrock", { image: { format: "png", source: { bytes: "AAAA" } } }],
])("a prompt with media of %s, written as text, is skipped", (_name, block) => {
  expect(imported(written([{ type: "text", text: "Where is this?" }, block])).skipped).toEqual(SKIPPED);
});

test("a tool response with an image is skipped", () => {
  const image = { type: "image", data: "AAAA", mimeType: "image/png" };
  const trace = chatTrace(
    [QUESTION, calls("a", "map"), responds("a", [{ type: "text", text: "A map." }, image])],
    [ANSWER],
  );
  expect(imported(trace).skipped).toEqual(SKIPPED);
});

test.each<[string, JsonValue]>([
  ["files that a tool lists", [{ type: "file", name: "README.md", url: "https://example.com/README.md" }]],
  ["documents that a tool finds", [{ type: "document", source: "wiki", text: "Paris" }]],
])("%s are text", (_name, response) => {
  const { lines } = imported(chatTrace([QUESTION, calls("a", "x"), responds("a", response)], [ANSWER]));
  expect(lines[0]?.messages[2]?.content).toBe(JSON.stringify(response));
});

test("a prompt that is a JSON list of anything else stays text", () => {
  const prompt = [
    { type: "image", name: "map" },
    { type: "image", name: "flag" },
  ];
  expect(imported(written(prompt)).lines[0]?.messages[0]?.content).toBe(JSON.stringify(prompt));
});
