/** @file A model call with several output messages: alternatives, of which each is taken or skipped for itself, or the items of one response. */
import { expect, test } from "vitest";
import { span, spans, textMessage } from "../../fixtures/traces.ts";
import { ANSWER, chatTrace, imported, type Line, QUESTION } from "./imported.ts";

const OTHER = textMessage("assistant", "There.");
const answersOf = (lines: readonly Line[]) => lines.map(({ messages }) => messages.at(-1)?.content);

test("each choice ends a conversation of its own", () => {
  const { lines } = imported(chatTrace([QUESTION], [ANSWER, textMessage("assistant", "There.")]));
  expect(lines.map(({ messages }) => messages.at(-1)?.content)).toEqual(["Here.", "There."]);
  expect(imported(chatTrace([ANSWER], [ANSWER, textMessage("assistant", "There.")])).skipped).toEqual({
    "it does not start with a user message": 2,
  });
});

test.each<[string, object]>([
  ["in the list of reasons", { "gen_ai.response.finish_reasons": ["length", "stop"] }],
  ["in a list as JSON", { "gen_ai.response.finish_reasons": '["length", "stop"]' }],
  ["in the message", { "gen_ai.output.messages": [{ ...(ANSWER as object), finish_reason: "length" }, OTHER] }],
  [
    "in the messages",
    {
      "gen_ai.output.messages": [
        { ...(ANSWER as object), finish_reason: "length" },
        { ...(OTHER as object), finish_reason: "stop" },
      ],
      "gen_ai.response.finish_reasons": ["length"],
    },
  ],
])("of two choices, only the one that was cut off is skipped: %s", (_where, attributes) => {
  const { lines, skipped } = imported(chatTrace([QUESTION], [ANSWER, OTHER], { ...attributes }));
  expect(answersOf(lines)).toEqual(["There."]);
  expect(skipped).toEqual({ "the model did not finish its message": 1 });
});

test("a reason that is not known to be of one choice skips every choice", () => {
  const reasons = { "gen_ai.response.finish_reasons": ["length"] };
  const { skipped } = imported(chatTrace([QUESTION], [ANSWER, OTHER], reasons));
  expect(skipped).toEqual({ "the model did not finish its message": 2 });
});

test("an image in one choice does not skip the other", () => {
  const image = { role: "assistant", parts: [{ type: "blob", content: "" }] };
  const { lines, skipped } = imported(chatTrace([QUESTION], [image, OTHER]));
  expect(answersOf(lines)).toEqual(["There."]);
  expect(skipped).toEqual({ "it has images, audio or files": 1 });
});

/** A call as OpenInference records it. The Responses API has a message per item. */
function openInference(parameters: string) {
  const call = "llm.output_messages.1.message.tool_calls.0.tool_call";
  const attributes = {
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "Where?",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.contents.0.message_content.type": "text",
    "llm.output_messages.0.message.contents.0.message_content.text": "Let me search.",
    "llm.output_messages.1.message.role": "assistant",
    [`${call}.id`]: "a",
    [`${call}.function.name`]: "search",
    [`${call}.function.arguments`]: "{}",
    "llm.invocation_parameters": parameters,
  };
  return imported(spans(span({ attributes })));
}

test("in OpenInference's traces of the Responses API, a text before a call is part of the turn, not an answer", () => {
  const { lines, skipped } = openInference('{"model": "m"}');
  expect(lines).toEqual([]);
  expect(skipped).toEqual({ "it ends with tool calls, not with an answer": 1 });
});

test("in OpenInference's traces, texts without calls are alternatives, whatever the parameters say", () => {
  for (const written of ["{}", '{"candidateCount": 2}', '{"tools": [tru']) {
    const attributes = {
      ...{ "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Where?" },
      ...{ "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "Here." },
      ...{ "llm.output_messages.1.message.role": "assistant", "llm.output_messages.1.message.content": "There." },
      "llm.invocation_parameters": written,
    };
    expect(answersOf(imported(spans(span({ attributes }))).lines)).toEqual(["Here.", "There."]);
  }
});

test.each(['{"n": 2}', '{"candidate_count": 2}'])("in OpenInference's traces, %s asks for several choices", (asked) => {
  const { lines, skipped } = openInference(asked);
  expect(answersOf(lines)).toEqual(["Let me search."]);
  expect(skipped).toEqual({ "it ends with tool calls, not with an answer": 1 });
});
