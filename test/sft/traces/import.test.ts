/** @file Model calls become conversations: the longest history counts, and every call is in the report. */
import { expect, test } from "vitest";
import { readMessages } from "../../../sft/messages.ts";
import type { JsonValue } from "../../../sft/traces/json.ts";
import { calls, chat, keyValues, responds, span, spans, textMessage } from "../../fixtures/traces.ts";
import { ANSWER, chatTrace, imported, QUESTION, roles } from "./imported.ts";

test("a call that another one contains is not imported, and branches are kept apart", () => {
  const history = [QUESTION, calls("a", "x"), responds("a", "found x")];
  const { lines, report } = imported(
    spans(
      span({ id: "1", attributes: chat([QUESTION], [calls("a", "x")]) }),
      span({ id: "2", attributes: chat(history, [ANSWER]) }),
      span({ id: "3", attributes: chat(history, [textMessage("assistant", "There.")]) }),
      span({ id: "4", attributes: chat(history, [ANSWER]) }),
    ),
  );
  expect(lines.map(({ messages }) => messages.at(-1)?.content)).toEqual(["Here.", "There."]);
  expect(report.contained).toBe(2);
});

test("thinking that a history lacks comes from the call that recorded it", () => {
  const thought = {
    role: "assistant",
    parts: [
      { type: "reasoning", content: "Hm." },
      { type: "tool_call", id: "a", name: "search", arguments: { query: "x" } },
    ],
  };
  const { lines } = imported(
    spans(
      span({ id: "1", attributes: chat([QUESTION], [thought]) }),
      span({ id: "2", attributes: chat([QUESTION, calls("a", "x"), responds("a", "y")], [ANSWER]) }),
    ),
  );
  expect(lines[0]?.messages[1]).toMatchObject({ role: "assistant", reasoning_content: "Hm." });
});

test("a conversation is imported up to its second user message", () => {
  const { lines, report } = imported(
    chatTrace([QUESTION, ANSWER, textMessage("user", "Sure?")], [textMessage("assistant", "Yes.")]),
  );
  expect(lines.map(roles)).toEqual(["user assistant"]);
  expect(report.cut).toBe(1);
});

test("consecutive assistant messages with one call each become one turn; a call without an id is matched to the response at its position", () => {
  const call = (query: string): JsonValue => ({
    role: "assistant",
    parts: [{ type: "tool_call", id: null, name: "search", arguments: { query } }],
  });
  const { lines } = imported(
    chatTrace([QUESTION, call("x"), call("y"), responds("a", "1"), responds("b", { n: 2 })], [ANSWER]),
  );
  expect(lines.map(roles)).toEqual(["user assistant tool tool assistant"]);
  expect(lines[0]?.messages.slice(1, 4)).toEqual([
    {
      role: "assistant",
      content: null,
      tool_calls: ["x", "y"].map((query) => ({
        type: "function",
        function: { name: "search", arguments: JSON.stringify({ query }) },
      })),
    },
    { role: "tool", content: "1" },
    { role: "tool", content: '{"n":2}' },
  ]);
});

test("the response of a tool that returns nothing is what the AI SDK sends to the model: null", () => {
  const returned = { type: "tool-result", toolCallId: "a", toolName: "search", output: { type: "json", value: null } };
  const { lines } = imported(chatTrace([QUESTION, calls("a", "x"), { role: "tool", content: [returned] }], [ANSWER]));
  expect(lines[0]?.messages[2]).toMatchObject({ role: "tool", content: "null" });
});

test("a span that encloses model calls is not imported as a call", () => {
  const { lines, skipped } = imported(
    spans(
      span({
        id: "agent",
        attributes: {
          ...chat([QUESTION], [ANSWER]),
          "gen_ai.operation.name": "invoke_agent",
          "gen_ai.agent.name": "searcher",
        },
      }),
      span({ id: "step", parent: "agent" }),
      span({ id: "2", parent: "step", attributes: chat([QUESTION, calls("a", "x"), responds("a", "y")], [ANSWER]) }),
    ),
  );
  expect(lines.map((line) => [line.agent, roles(line)])).toEqual([["searcher", "user assistant tool assistant"]]);
  expect(skipped).toEqual({ "it encloses other model calls, which count instead": 1 });
});

test("a tool's span with message events is not a model call", () => {
  const events = [
    { name: "gen_ai.tool.message", attributes: { role: "tool", content: '{"query": "x"}', id: "a" } },
    { name: "gen_ai.choice", attributes: { message: '[{"text": "found x"}]', id: "a" } },
  ];
  const tool = span({ id: "2", attributes: { "gen_ai.operation.name": "execute_tool" }, events });
  const { lines, report } = imported(spans(tool, span({ attributes: chat([QUESTION], [ANSWER]) })));
  expect(lines.map(roles)).toEqual(["user assistant"]);
  expect([report.found, report.otherSpans]).toEqual([1, 1]);
});

test("content is imported from events in log records, without a span", () => {
  const attributes = keyValues({
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": [QUESTION],
    "gen_ai.output.messages": [ANSWER],
  });
  const record = { traceId: "t", spanId: "1", eventName: "gen_ai.client.inference.operation.details", attributes };
  const other = {
    eventName: record.eventName,
    attributes: keyValues({
      "gen_ai.input.messages": [QUESTION],
      "gen_ai.output.messages": [textMessage("assistant", "There.")],
    }),
  };
  const logRecords = [record, { body: { stringValue: "started" } }, other, { eventName: record.eventName, attributes }];
  const { lines, report } = imported({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
  expect(lines.map(roles)).toEqual(["user assistant", "user assistant"]);
  expect(report.contained).toBe(1);
});

test("Anthropic's custom tools are imported; tools that the provider runs are left out, and counted", () => {
  const input_schema = { type: "object", properties: { query: { type: "string" } } };
  const custom = { type: "custom", name: "search", description: "Finds pages.", input_schema };
  const definitions = JSON.stringify([custom, { type: "web_search_20250305", name: "web_search" }]);
  const { lines, report } = imported(chatTrace([QUESTION], [ANSWER], { "gen_ai.tool.definitions": definitions }));
  const search = { name: "search", description: "Finds pages.", parameters: input_schema };
  expect(lines).toEqual([expect.objectContaining({ tools: [{ type: "function", function: search }] })]);
  expect(report.providerTools).toBe(1);
});

test("a response that Bedrock records twice is one response", () => {
  const toolUse = { toolUse: { toolUseId: "a", name: "search", input: { query: "x" } } };
  const call = { id: "a", type: "function", function: { name: "search", arguments: { query: "x" } } };
  const messages: [string, JsonValue][] = [
    ["user.message", { content: [{ text: "Where?" }] }],
    ["assistant.message", { content: [toolUse], tool_calls: [call] }],
    ["tool.message", { id: "a", content: [{ text: "found x" }] }],
    ["user.message", { content: [{ toolResult: { toolUseId: "a", content: [{ text: "found x" }] } }] }],
    ["choice", { index: 0, finish_reason: "end_turn", message: { role: "assistant", content: [{ text: "Here." }] } }],
  ];
  const events = messages.map(([name, body]) => ({
    name: `gen_ai.${name}`,
    attributes: { "gen_ai.event.content": body },
  }));
  const { lines } = imported(spans(span({ events })));
  expect(lines.map(roles)).toEqual(["user assistant tool assistant"]);
  expect(lines[0]?.messages[2]).toEqual({ role: "tool", tool_call_id: "a", content: "found x" });
});

test.each<[string, JsonValue, string]>([
  ["text blocks", [{ type: "text", text: "a", annotations: [] }, { text: "b" }], "ab"],
  ["Bedrock's blocks", [{ text: "a" }, { json: { n: 1 } }], 'a{"n":1}'],
  ["a list of the tool's own", [{ title: "A", text: "a" }], '[{"title":"A","text":"a"}]'],
])("a response that is a list becomes text: %s", (_what, response, content) => {
  const { lines } = imported(chatTrace([QUESTION, calls("a", "x"), responds("a", response)], [ANSWER]));
  expect(lines[0]?.messages[2]).toMatchObject({ role: "tool", content });
});

test("the keys of a line of OpenAI messages serve as attributes", () => {
  const line = {
    messages: [
      { role: "user", content: "Where?" },
      { role: "assistant", content: "Here." },
    ],
    agent: "a",
    metadata: { feedback: true },
  };
  const score = (min: number) => ({ score: { name: "metadata.feedback", min } });
  expect(imported(line, score(1)).lines).toEqual([{ agent: "a", messages: line.messages }]);
  expect(imported(line, score(2)).skipped).toEqual({ "metadata.feedback is below 2": 1 });
});

test.each([
  '[{"text":"Paris","label":"LOC"},{"text":"Bob","label":"PER"}]',
  '[{"type":"text","text":"Paris","style":"bold"}]',
  '[{"toolName":"search"}]',
  '[{"function":{"name":"search"}}]',
])("a message that is a JSON list, but not of content blocks, is unchanged: %s", (answer) => {
  const line = {
    messages: [
      { role: "user", content: answer },
      { role: "assistant", content: answer },
    ],
  };
  const event = (name: string) => ({ name, attributes: { content: answer } });
  const events = [event("gen_ai.user.message"), event("gen_ai.choice")];
  for (const document of [line, spans(span({ events }))]) {
    expect(imported(document).lines.map(({ messages }) => messages.map(({ content }) => content))).toEqual([
      [answer, answer],
    ]);
  }
});

test("a list of content blocks in a string is read in a span's events, and never in a line of OpenAI messages", () => {
  const blocks = '[{"text":"Here"},{"type":"text","text":"."}]';
  const events = [
    { name: "gen_ai.user.message", attributes: { content: "Where?" } },
    { name: "gen_ai.choice", attributes: { message: blocks } },
  ];
  const answerIn = (document: unknown) => imported(document).lines[0]?.messages.at(-1)?.content;
  expect(answerIn(spans(span({ events })))).toBe("Here.");
  const [user, assistant] = ["user", "assistant"].map((role) => ({ role, content: blocks }));
  expect(answerIn({ messages: [user, assistant] })).toBe(blocks);
});

test("responses to calls with equal ids are in the order of the calls", () => {
  for (const id of ["", "a"]) {
    const listed = ["x", "y"].map((query) => ({ id, function: { name: "search", arguments: { query } } }));
    const { lines } = imported(
      chatTrace([QUESTION, { role: "assistant", tool_calls: listed }, responds(id, "1"), responds(id, "2")], [ANSWER]),
    );
    const [line] = readMessages(JSON.stringify(lines[0]), "out.jsonl");
    expect(line?.demonstration.turns[0]?.responses).toEqual(["1", "2"]);
  }
});
