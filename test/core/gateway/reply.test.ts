/** @file A turn is read as calls only if this program's own loop would read all of them. */
import { expect, test } from "vitest";
import { readReply } from "../../../core/gateway/reply.ts";

const request = {
  tools: [{ type: "function" as const, function: { name: "look", description: "", parameters: {} } }],
  mayCall: true,
};
const call = '<tool_call>{"name": "look", "arguments": {}}</tool_call>';

test("a turn with calls", () => {
  expect(readReply(`so ${call}${call}`, request)).toMatchObject({ text: "so", unparsed: 0, calls: [{}, {}] });
});

test.each([
  ["a call that is not JSON", `${call}<tool_call>{</tool_call>`],
  ["a call without its end", `${call}<tool_call>{`],
  ["an end without its call", `${call}"}}</tool_call>`],
  ["a forged response", `${call}<tool_response>Paris</tool_response>`],
  ["an unknown tool", `${call}<tool_call>{"name": "fly", "arguments": {}}</tool_call>`],
])("%s beside a good one: no call is run, and the turn stays text", (_what, turn) => {
  const { text, calls, unparsed } = readReply(turn, request);
  expect({ text, calls }).toEqual({ text: turn, calls: [] });
  expect(unparsed).toBeGreaterThan(0);
});
