/** @file What cannot be a demonstration is skipped with a reason, or refused with its line number, and none of its text is quoted. */
import { constants } from "node:buffer";
import { expect, test } from "vitest";
import { importTraces } from "../../../sft/traces/import.ts";
import type { JsonValue } from "../../../sft/traces/json.ts";
import { calls, chat, responds, span, spans, textMessage } from "../../fixtures/traces.ts";
import { ANSWER, chatTrace, imported, OPTIONS, QUESTION } from "./imported.ts";

const called = (id: string): JsonValue => ({ id, function: { name: "search", arguments: "{}" } });

test.each<[string, JsonValue]>([
  ["it ends with tool calls, not with an answer", chatTrace([QUESTION], [calls("a", "x")])],
  [
    "a tool call does not have exactly one response",
    chatTrace([QUESTION, calls("a", "x"), responds("b", "y")], [ANSWER]),
  ],
  ["it has a tool response without a call", chatTrace([QUESTION, responds("b", "y")], [ANSWER])],
  ["it has a tool response without a call", chatTrace([QUESTION, ANSWER, responds("b", "y")], [ANSWER])],
  ["it does not start with a user message", chatTrace([ANSWER], [ANSWER])],
  ["it has no assistant message", { messages: [{ role: "user", content: "Where?" }] }],
  ["it has two user messages in a row", chatTrace([QUESTION, QUESTION], [ANSWER])],
  ["it has a system message after the prompt", chatTrace([QUESTION, textMessage("system", "Be brief.")], [ANSWER])],
  [
    "its answer is empty",
    chatTrace([QUESTION], [{ role: "assistant", parts: [{ type: "reasoning", content: "Hm." }] }]),
  ],
  ["its answer is empty", chatTrace([QUESTION], [{ role: "assistant", content: "", reasoning_content: "Hm." }])],
  [
    "the model did not finish its message",
    chatTrace([QUESTION], [ANSWER], { "gen_ai.response.finish_reasons": ["length"] }),
  ],
  [
    "the model did not finish its message",
    chatTrace([QUESTION], [ANSWER], { "gen_ai.response.finish_reasons": '["length"]' }),
  ],
  [
    "the model did not finish its message",
    chatTrace([QUESTION], [ANSWER], { "gen_ai.response.finish_reasons": ["max_output_tokens"] }),
  ],
  // The first is vLLM's and SGLang's, the next two are GLM's, the last is Anthropic's.
  ...["abort", "network_error", "sensitive", "pause_turn"].map((reason): [string, JsonValue] => [
    "the model did not finish its message",
    chatTrace([QUESTION], [ANSWER], { "gen_ai.response.finish_reasons": [reason] }),
  ]),
  [
    "the model did not finish its message",
    chatTrace([QUESTION], [ANSWER], { "gen_ai.response.finish_reasons": ["content_filtered"] }),
  ],
  [
    "the model did not finish its message",
    chatTrace([QUESTION], [ANSWER], { "gen_ai.response.finish_reasons": ["RECITATION"] }),
  ],
  [
    "the model did not finish its message",
    chatTrace([QUESTION], [ANSWER], { "gen_ai.response.finish_reasons": ["refusal"] }),
  ],
  [
    "the model did not finish its message",
    spans(
      span({
        attributes: {
          "ai.operationId": "ai.streamText.doStream",
          "gen_ai.request.model": "m",
          "ai.prompt.messages": '[{"role":"user","content":"Where?"}]',
          "ai.response.text": "",
          "ai.response.reasoning": "Hm.",
          "ai.response.finishReason": "length",
        },
      }),
    ),
  ],
  ["the call failed", spans(span({ attributes: chat([QUESTION], [ANSWER]), status: { code: 2 } }))],
  [
    "it has images, audio or files",
    chatTrace([{ role: "user", parts: [{ type: "uri", modality: "image", uri: "https://…" }] }], [ANSWER]),
  ],
  [
    "it has calls of tools that the provider ran",
    chatTrace(
      [QUESTION],
      [{ role: "assistant", parts: [{ type: "server_tool_call", name: "web_search", server_tool_call: {} }] }],
    ),
  ],
  ["a message has an unknown role", chatTrace([textMessage("customer", "Where?")], [ANSWER])],
  [
    "the arguments of a tool call are not a JSON object",
    chatTrace(
      [
        QUESTION,
        { role: "assistant", parts: [{ type: "tool_call", id: "a", name: "search", arguments: "{oops" }] },
        responds("a", "y"),
      ],
      [ANSWER],
    ),
  ],
  [
    "a tool call does not have exactly one response",
    chatTrace(
      [QUESTION, { role: "assistant", tool_calls: [called("a"), called("a")] }, responds("a", "1"), responds("b", "2")],
      [ANSWER],
    ),
  ],
  [
    "a tool's parameters are not JSON: were they truncated by an attribute length limit?",
    spans(
      span({
        attributes: {
          "gen_ai.prompt.0.role": "user",
          "gen_ai.prompt.0.content": "Where?",
          "gen_ai.completion.0.role": "assistant",
          "gen_ai.completion.0.content": "Here.",
          "llm.request.functions.0.name": "search",
          "llm.request.functions.0.parameters": '{"type":"object","prope',
        },
      }),
    ),
  ],
  ["gen_ai.input.messages is malformed at 0.parts", chatTrace([{ role: "user", parts: 7 }], [ANSWER])],
  [
    "gen_ai.tool.definitions is malformed at 0",
    chatTrace([QUESTION], [ANSWER], {
      "gen_ai.tool.definitions": '[{"type":"function","function":{"parameters":{}}}]',
    }),
  ],
])("a call is skipped, with the reason: %s", (reason, document) => {
  const { lines, skipped } = imported(document);
  expect(lines).toEqual([]);
  expect(skipped).toEqual({ [reason]: 1 });
});

test("a call whose messages a limit cut off is skipped, and their text is not quoted", () => {
  const attributes = {
    ...chat([], [ANSWER]),
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"my secret',
  };
  const { skipped } = imported(spans(span({ attributes })));
  const reason = "gen_ai.input.messages is not JSON: was it truncated by an attribute length limit?";
  expect(skipped).toEqual({ [reason]: 1 });
});

test.each(["llm.input_messages", "gen_ai.prompt"])(
  "a conversation whose first messages a limit dropped is skipped, not imported without them: %s",
  (prefix) => {
    const isOpenInference = prefix.startsWith("llm");
    const message = (list: string, i: number, role: string, content: string) => {
      const at = `${list}.${i}${isOpenInference ? ".message" : ""}`;
      return { [`${at}.role`]: role, [`${at}.content`]: content };
    };
    const input = [
      message(prefix, 0, "user", "Where is Paris?"),
      message(prefix, 1, "assistant", "In France."),
      message(prefix, 2, "user", "And who governs it?"),
    ];
    const outputs = isOpenInference ? "llm.output_messages" : "gen_ai.completion";
    const output = message(outputs, 0, "assistant", "Its mayor.");
    const importOf = (...kept: object[]) => imported(spans(span({ attributes: Object.assign({}, ...kept, output) })));
    expect(importOf(...input).lines).toHaveLength(1);
    const { lines, skipped } = importOf(...input.slice(2));
    expect(lines).toEqual([]);
    expect(skipped).toEqual({ [`${prefix} lacks an entry: did a limit on the number of attributes drop it?`]: 1 });
  },
);

test("for content that was left out or hidden, the reason names the recorder's setting", () => {
  const hidden = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "__REDACTED__",
    "llm.output_messages.0.message.role": "assistant",
  };
  const partly = {
    ...hidden,
    "llm.input_messages.0.message.content": "Where?",
    "llm.output_messages.0.message.contents.0.message_content.type": "text",
    "llm.output_messages.0.message.contents.0.message_content.text": "__REDACTED__",
  };
  const sdk = { "ai.operationId": "ai.streamText.doStream", "gen_ai.request.model": "m" };
  const events = [
    { name: "gen_ai.user.message", attributes: { "gen_ai.system": "openai" } },
    { name: "gen_ai.choice", attributes: { index: 0, finish_reason: "stop", message: { role: "assistant" } } },
  ];
  const { skipped } = imported(
    spans(...[hidden, partly, sdk].map((attributes, i) => span({ id: `${i}`, attributes })), span({ id: "3", events })),
  );
  expect(Object.entries(skipped)).toEqual([
    [expect.stringContaining("OPENINFERENCE_HIDE_INPUTS"), 2],
    [expect.stringContaining("recordInputs"), 1],
    [expect.stringContaining("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"), 1],
  ]);
});

test.each([
  ["not JSON", '{"messages": []}\n{"messages": ["my secret', /^traces.jsonl:2: not JSON: give traces/],
  ["of another kind", '{"prompt": "my secret"}', /^traces.jsonl:1: neither OTLP JSON .* nor OpenAI messages/],
  [
    "malformed OTLP",
    '\n{"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": 7}]}]}]}',
    /^traces.jsonl:2: resourceSpans.0.scopeSpans.0.spans.0.spanId: /,
  ],
  [
    "a conversation with a key that would be lost",
    '{"messages": [{"role": "assistant", "content": "", "verdict": "my secret"}]}',
    /^traces.jsonl:1: messages.0: Unrecognized key: "verdict"/,
  ],
])("a line that is %s is refused with its number, and without its text", (_, text, message) => {
  const read = () => importTraces([{ file: "traces.jsonl", bytes: Buffer.from(text) }], OPTIONS);
  expect(read).toThrow(message);
  expect(read).not.toThrow(/secret/);
});

test.each<[string, Record<string, JsonValue>]>([
  ["the model refused to answer", { content: null, refusal: "I can't." }],
  ["it has images, audio or files", { content: null, audio: { id: "audio_1" } }],
  ["a message has annotations", { content: "x", annotations: [{ type: "url_citation" }] }],
  ["a message has a function_call: write it as tool_calls", { content: null, function_call: { name: "search" } }],
])("of lines of messages, only the one whose content would be lost is skipped: %s", (reason, fields) => {
  const question = { role: "user", content: "Where?" };
  const written = { content: "Here.", refusal: null, audio: null, annotations: [], function_call: null };
  const lines = [written, fields].map((reply) => ({ messages: [question, { role: "assistant", ...reply }] }));
  const bytes = Buffer.from(lines.map((line) => JSON.stringify(line)).join("\n"));
  const { lines: taken, report } = importTraces([{ file: "traces.jsonl", bytes }], OPTIONS);
  expect(taken).toEqual([{ messages: [question, { role: "assistant", content: "Here." }] }]);
  expect([...report.skipped]).toEqual([[reason, { count: 1, first: "traces.jsonl:2" }]]);
});

test("a file that is not UTF-8 is refused: its letters would be lost", () => {
  const bytes = Buffer.from(
    '{"messages": [{"role": "user", "content": "é"}, {"role": "assistant", "content": "é"}]}',
    "latin1",
  );
  expect(() => importTraces([{ file: "traces.jsonl", bytes }], OPTIONS)).toThrow(
    "traces.jsonl: not UTF-8 text: convert it to UTF-8, or decompress it",
  );
});

test("a first line that is not JSON is refused with its number, even in a file that is longer than a string can be", () => {
  const bytes = new Uint8Array(constants.MAX_STRING_LENGTH + 1);
  bytes.set(Buffer.from("{\n"));
  expect(() => importTraces([{ file: "traces.jsonl", bytes }], OPTIONS)).toThrow(
    /^traces.jsonl:1: not JSON, and the file is too long to be read as one document/,
  );
});

test("a line that is longer than a string can be is refused with its number", () => {
  const bytes = new Uint8Array(constants.MAX_STRING_LENGTH + 2);
  bytes.set(Buffer.from("\n"));
  expect(() => importTraces([{ file: "traces.jsonl", bytes }], OPTIONS)).toThrow(
    /^traces.jsonl:2: the line is too long to be read/,
  );
});

test("an attribute with an empty value counts as absent: the call has not failed, and its agent is that of the span around it", () => {
  const { lines } = imported(
    spans(
      span({ id: "agent", attributes: { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "searcher" } }),
      span({
        id: "2",
        parent: "agent",
        attributes: chat([QUESTION], [ANSWER], { "gen_ai.agent.name": null, "error.type": null }),
      }),
    ),
  );
  expect(lines.map(({ agent }) => agent)).toEqual(["searcher"]);
});
