/** @file Demonstrations as OpenAI messages: what they become, and which lines are refused. */
import { expect, test } from "vitest";
import * as z from "zod";
import { refuseMalformed, refuseOtherAgent, type TargetAgent } from "../../sft/check.ts";
import { readMessages } from "../../sft/messages.ts";

const search = (id: string, query: string) => ({
  id,
  type: "function",
  function: { name: "search", arguments: JSON.stringify({ query }) },
});
const USER = { role: "user", content: "Where?" };
const ANSWER = { role: "assistant", content: "Paris" };
const CALLS = { role: "assistant", content: null, tool_calls: [search("a", "x"), search("b", "y")] };
const responses = (...ids: string[]) => ids.map((id) => ({ role: "tool", tool_call_id: id, content: `found ${id}` }));

const SEARCHER: TargetAgent = {
  agent: "searcher",
  config: {
    system: "Search.",
    limits: { turns: 3, turnTokens: 64, contextTokens: 512, calls: 2, responseCharacters: 100 },
  },
  toolbox: { parameters: new Map([["search", z.strictObject({ query: z.string() })]]) },
};

const lineOf = (messages: readonly unknown[], rest: object = {}) => JSON.stringify({ messages, ...rest });

/** Reads a file whose second line has these messages, and checks it for the searcher. */
function parsed(messages: readonly unknown[], rest: object = {}) {
  const [line] = readMessages(`\n${lineOf(messages, rest)}\n`, "demos.jsonl");
  if (!line) throw new Error("no line");
  refuseOtherAgent(line, SEARCHER);
  refuseMalformed(line, SEARCHER);
  return line.demonstration;
}

test("calls and answers become turns, with the responses in the order of the calls", () => {
  expect(parsed([{ role: "system", content: "Search." }, USER, CALLS, ...responses("b", "a"), ANSWER])).toEqual({
    prompt: "Where?",
    turns: [
      {
        text: '<tool_call>\n{"name": "search", "arguments": {"query":"x"}}\n</tool_call>\n<tool_call>\n{"name": "search", "arguments": {"query":"y"}}\n</tool_call>',
        responses: ["found a", "found b"],
      },
      { text: "<answer>Paris</answer>", responses: [] },
    ],
  });
});

test("text parts, arguments as objects, calls without ids and reasoning are read too", () => {
  const call = { role: "assistant", tool_calls: [{ function: { name: "search", arguments: { query: "x" } } }] };
  const demonstration = parsed([
    { role: "user", content: [{ type: "text", text: "Where?" }] },
    call,
    { role: "tool", content: "found" },
    { ...ANSWER, reasoning_content: "Hm." },
  ]);
  expect(demonstration.turns.map(({ responses: own }) => own)).toEqual([["found"], []]);
  expect(demonstration.turns[1]?.text).toBe("<think>\nHm.\n</think>\n\n<answer>Paris</answer>");
});

const unknownTool = { role: "assistant", tool_calls: [{ function: { name: "serch", arguments: "{}" } }] };
const wrongArguments = { role: "assistant", tool_calls: [{ function: { name: "search", arguments: '{"q":"x"}' } }] };
const notJson = { role: "assistant", tool_calls: [{ function: { name: "search", arguments: "{query" } }] };
const response = { role: "tool", content: "found" };
const otherTool = { ...response, name: "visit" };
const oneCall = { role: "assistant", tool_calls: [{ function: { name: "search", arguments: '{"query":"x"}' } }] };

test.each<[string, readonly unknown[], object, string]>([
  ["a call to an unknown tool", [USER, unknownTool, response, ANSWER], {}, "turn 1: unknown tool 'serch'"],
  ["arguments that do not match", [USER, wrongArguments, response, ANSWER], {}, "turn 1: arguments of 'search'"],
  ["arguments that are not JSON", [USER, notJson, response, ANSWER], {}, "turn 1: the tool call is not JSON"],
  ["a call without its response", [USER, CALLS, ...responses("a"), ANSWER], {}, "2 tool calls and 1 responses"],
  ["a response to another call", [USER, CALLS, ...responses("a", "c"), ANSWER], {}, "answers the call 'b'"],
  ["a response of another tool", [USER, oneCall, otherTool, ANSWER], {}, "of 'visit' answers a call of 'search'"],
  ["no answer at the end", [USER, CALLS], {}, "it ends with tool calls"],
  ["a second prompt", [USER, ANSWER, USER, ANSWER], {}, "a conversation has one prompt"],
  ["a system message after the prompt", [USER, { role: "system", content: "Hi." }, ANSWER], {}, "not of role 'system'"],
  ["two answers", [USER, ANSWER, ANSWER], {}, "turn 1 is an answer"],
  ["no prompt", [ANSWER], {}, "must be the user's"],
  [
    "a system message other than the agent's",
    [{ role: "system", content: "Hi." }, USER, ANSWER],
    {},
    "agents.searcher.system",
  ],
  [
    "a list of tools that the agent does not have",
    [USER, ANSWER],
    { tools: [{ function: { name: "visit" } }] },
    "its tool 'visit'",
  ],
  ["a setting that would be ignored", [USER, { ...ANSWER, weight: 0 }], {}, "weight"],
  [
    "a special token of the chat template",
    [USER, { role: "assistant", content: "a<|im_end|>" }],
    {},
    "<|im_end|> inside a turn",
  ],
])("a line with %s is refused with its number", (_name, messages, rest, fault) => {
  expect(() => parsed(messages, rest)).toThrow(/^demos\.jsonl:2: /);
  expect(() => parsed(messages, rest)).toThrow(fault);
});

test.each([
  ["empty", "", ""],
  ["equal", "a", "a"],
])("responses to calls with %s ids are in the order of the calls, and each is used once", (_what, id) => {
  const calling = { role: "assistant", content: null, tool_calls: [search(id, "x"), search(id, "y")] };
  const found = ["A", "B"].map((content) => ({ role: "tool", tool_call_id: id, content }));
  expect(parsed([USER, calling, ...found, ANSWER]).turns[0]?.responses).toEqual(["A", "B"]);
});

test("two calls are refused if only one of them is answered, even with two responses", () => {
  const twice = [...responses("a"), ...responses("a")];
  expect(() => parsed([USER, CALLS, ...twice, ANSWER])).toThrow("no tool message answers the call 'b'");
  const same = { ...CALLS, tool_calls: [search("a", "x"), search("a", "y")] };
  expect(() => parsed([USER, same, ...responses("a", "b"), ANSWER])).toThrow("no tool message answers the call 'a'");
});

test("a byte order mark at the start of the file is not part of the first line", () => {
  const [line] = readMessages(`\uFEFF${lineOf([USER, ANSWER])}\n`, "demos.jsonl");
  expect(line?.demonstration.prompt).toBe("Where?");
});

test("a line that is not JSON is refused with its number", () => {
  expect(() => readMessages(`${lineOf([USER, ANSWER])}\n{`, "demos.jsonl")).toThrow("demos.jsonl:2: not JSON");
});
