/** @file Integers of 64 bits, such as ids, in the calls and responses of traces: a JavaScript number would round them. */
import { expect, test } from "vitest";
import { importTraces } from "../../../sft/traces/import.ts";
import { exactJsonIn, exactText } from "../../../sft/traces/json.ts";
import { chat, span, spans } from "../../fixtures/traces.ts";
import { ANSWER, imported, QUESTION } from "./imported.ts";

const ID = "1234567890123456789";

/** Writes the string "ID" as an integer. */
const withId = (value: object) => JSON.stringify(value).replaceAll('"ID"', ID);

test("calls and responses that are recorded as JSON keep the digits of their integers", () => {
  const calling = {
    role: "assistant",
    parts: [{ type: "tool_call", id: "a", name: "get", arguments: { user: "ID", page: 2, note: '\\"ID 7"' } }],
  };
  const response = { role: "tool", parts: [{ type: "tool_call_response", id: "a", response: { next: "ID" } }] };
  const limit = { type: "object", properties: { user: { type: "integer", maximum: "ID" } } };
  const attributes = {
    ...chat([], [ANSWER]),
    "gen_ai.input.messages": withId([QUESTION as object, calling, response]),
    "gen_ai.tool.definitions": withId([{ type: "function", name: "get", parameters: limit }]),
  };
  const { lines } = imported(spans(span({ attributes })));
  expect(lines[0]?.messages.slice(1, 3)).toMatchObject([
    { tool_calls: [{ function: { arguments: `{"user":${ID},"page":2,"note":"\\\\\\"ID 7\\""}` } }] },
    { content: `{"next":${ID}}` },
  ]);
  // Schemas are objects in the file of demonstrations.
  const rounded = { ...limit, properties: { user: { type: "integer", maximum: Number(ID) } } };
  expect(lines[0]).toMatchObject({ tools: [{ function: { name: "get", parameters: rounded } }] });
});

test.each([`"${ID}"`, ID])("an OTLP integer keeps its digits in calls, texts and attributes: %s", (intValue) => {
  const input = [
    QUESTION,
    { role: "assistant", parts: [{ type: "tool_call", id: "a", name: "get", arguments: { user: "LONG" } }] },
    { role: "tool", parts: [{ type: "tool_call_response", id: "a", response: { next: "LONG" } }] },
  ];
  const attributes = {
    ...chat([], [ANSWER]),
    "gen_ai.input.messages": input,
    user: "LONG",
    "gen_ai.agent.name": "LONG",
  };
  const document = JSON.stringify(spans(span({ attributes })));
  const bytes = Buffer.from(document.replaceAll('{"stringValue":"LONG"}', `{"intValue": ${intValue}}`));
  const options = { conditions: [{ attribute: "user", value: ID }], score: { name: "user", min: 1 }, system: true };
  const { lines, report } = importTraces([{ file: "traces.json", bytes }], options);
  expect([...report.skipped]).toEqual([]);
  expect(lines).toMatchObject([
    {
      agent: ID,
      messages: [
        {},
        { tool_calls: [{ function: { arguments: `{"user":${ID}}` } }] },
        { content: `{"next":${ID}}` },
        {},
      ],
    },
  ]);
});

test("a line of OpenAI messages keeps the digits of its integers in arguments and attributes", () => {
  const asks = { id: "a", type: "function", function: { name: "get", arguments: { user: "ID" } } };
  const messages = [
    { role: "user", content: "Where?" },
    { role: "assistant", content: null, tool_calls: [asks] },
    { role: "tool", tool_call_id: "a", content: "Found." },
    { role: "assistant", content: "Here." },
  ];
  const bytes = Buffer.from(withId({ user: "ID", score: "ID", messages }));
  const conditions = [{ attribute: "user", value: ID }];
  const options = { conditions, score: { name: "score", min: 1 }, system: true };
  const { lines } = importTraces([{ file: "messages.jsonl", bytes }], options);
  expect(lines).toMatchObject([
    { messages: [{}, { tool_calls: [{ function: { arguments: `{"user":${ID}}` } }] }, {}, {}] },
  ]);
});

test.each([
  `{"a":${ID},"b":[-${ID}],"c":0.${ID},"d":1e300}`,
  `["${ID}","\\"${ID}","\\\\",${ID}]`,
  `{"${ID}":"a\\\\\\"${ID}, ${ID}"}`,
])("%s keeps its long integers, and only those become marked strings", (text) => {
  const rounded = JSON.stringify(JSON.parse(text));
  expect(exactText(exactJsonIn(text) ?? null)).toBe(rounded.replace(/(?<![\d.])1234567890123456800(?!")/g, ID));
});

test("a text of many megabytes is read", () => {
  const long = `{"text":"${'\\"'.repeat(6_000_000)}","id":${ID}}`;
  expect(exactText(exactJsonIn(long) ?? null)).toBe(long);
});
