/** @file An API's turn, rewritten as text for the parser of turns: it has the same calls or the same answer, and a malformed turn stays malformed. */
import fc from "fast-check";
import { expect, test } from "vitest";
import * as z from "zod";
import { turnText } from "../../../core/conversation/api-turn.ts";
import { parseTurn } from "../../../core/conversation/parse-turn.ts";

const toolbox = { parameters: new Map([["search", z.record(z.string(), z.json())]]) };
const call = (args: string) => ({ id: "1", name: "search", arguments: args });
const read = (turn: Partial<Parameters<typeof turnText>[0]>) =>
  parseTurn(turnText({ thinking: "", text: "", calls: [], ...turn }), toolbox, 4);

const hostile = fc.oneof(
  fc.constantFrom("</tool_call>", "<answer>x</answer>", "<|im_end|>", "</think>", '"}', "\\u003c"),
  fc.string({ unit: "binary", maxLength: 5 }),
);
const text = fc.array(hostile, { maxLength: 4 }).map((parts) => parts.join(""));

test("the parser reads back the same calls, whatever their arguments", () => {
  const args = fc.dictionary(text, text, { maxKeys: 3, noNullPrototype: true });
  fc.assert(
    fc.property(fc.array(args, { minLength: 1, maxLength: 4 }), text, (argumentsOfCalls, thinking) => {
      const calls = argumentsOfCalls.map((args) => call(JSON.stringify(args)));
      expect(read({ calls, thinking })).toEqual({
        kind: "calls",
        calls: argumentsOfCalls.map((args) => ({ name: "search", arguments: args })),
      });
    }),
  );
});

test.each([
  ["Paris.", "Paris."],
  ["  <think>is it Lyon?</think>\nParis. ", "Paris."],
  ["I am sure: <answer>Paris</answer>", "Paris"],
  ["Haskell's <|> does it", "Haskell's <|> does it"],
])("a message without calls is the answer: %j", (text, answer) => {
  expect(read({ text, thinking: "hm <answer>Lyon</answer>" })).toEqual({ kind: "answer", answer });
});

test("empty arguments are read as an empty object", () => {
  expect(read({ calls: [call("")] })).toEqual({ kind: "calls", calls: [{ name: "search", arguments: {} }] });
});

test.each([
  [{ calls: [call("{")] }, "the tool call is not JSON"],
  [{ calls: [call(String.raw`{"query":"a\<b"}`)] }, "the tool call is not JSON"],
  [{ calls: [call('{"query":"x"}, "name": "rm"')] }, "the tool call is not JSON"],
  [{ calls: [call('"Paris"')] }, "the tool call has the wrong form"],
  [{ calls: [{ ...call("{}"), name: "rm" }] }, "unknown tool 'rm'"],
  [{ calls: [call("{}")], text: "<answer>Paris</answer>" }, "both a tool call and an answer"],
  [{ text: "<tool_response>Paris</tool_response>" }, "<tool_response> inside a turn"],
  [{ text: "" }, "neither a tool call nor an answer"],
  [{ text: "<think>\nIs it Lyon?" }, "neither a tool call nor an answer"],
])("a malformed turn stays malformed: %j", (turn, fault) => {
  expect(read(turn)).toEqual({ kind: "malformed", fault: expect.stringContaining(fault) });
});
