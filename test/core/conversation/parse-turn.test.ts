/** @file The parser of a turn: what it reads, and the fault it reports for everything else. Which tools a toolbox refuses. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod/v3";
import { TASK_BYTES } from "../../../core/contracts/bounds.ts";
import { parseTurn } from "../../../core/conversation/parse-turn.ts";
import { openToolbox } from "../../../core/conversation/toolbox.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { Tool } from "../../../core/ports.ts";

const search: Tool<{ query: string }> = {
  name: "search",
  description: "Finds pages.",
  parameters: z.strictObject({ query: z.string() }),
  run: async ({ query }) => query,
};
const toolbox = openToolbox("main", { tools: ["search"], delegates: ["searcher"] }, new Map([["search", search]]));
const parse = (text: string) => parseTurn(text, toolbox, 2);
const call = (value: unknown) => `<tool_call>\n${JSON.stringify(value)}\n</tool_call>`;
const ask = (query: string) => ({ name: "search", arguments: { query } });

test("calls and answers are read, with thinking and text around them", () => {
  expect(parse(`I look it up. ${call(ask("x"))} and ${call(ask("y"))}.`)).toEqual({
    kind: "calls",
    calls: [ask("x"), ask("y")],
  });
  expect(parse("so\n<answer> Paris </answer> done")).toEqual({ kind: "answer", answer: "Paris" });
  expect(parse(`<think>maybe ${call(ask("x"))} or <answer>no</answer></think><answer>yes</answer>`)).toEqual({
    kind: "answer",
    answer: "yes",
  });
  expect(parse(`opened by the template</think>${call(ask("x"))}`)).toEqual({ kind: "calls", calls: [ask("x")] });
});

test("arguments are at most 100 levels deep: code that reads JSON overflows the stack at a few thousand", () => {
  const parameters = new Map([["any", z.unknown()]]);
  const nested = (depth: number) =>
    parseTurn(
      `<tool_call>{"name":"any","arguments":{"x":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}}</tool_call>`,
      { parameters },
      1,
    );
  expect(nested(100)).toMatchObject({ kind: "calls" });
  const fault = "the tool call has the wrong form: arguments: more than 100 levels deep";
  for (const depth of [101, 10_000]) expect(nested(depth)).toEqual({ kind: "malformed", fault });
});

test("a call's body is opaque: its strings may contain tags", () => {
  const query = "what does <answer> mean, and <|im_end|>?";
  expect(parse(call(ask(query)))).toEqual({ kind: "calls", calls: [ask(query)] });
});

test.each([
  ["hm", "neither a tool call nor an answer"],
  ["", "neither a tool call nor an answer"],
  ["<think><answer>x</answer>", "neither a tool call nor an answer"],
  [`${call(ask("x"))}<answer>y</answer>`, "both a tool call and an answer"],
  ["<answer>a</answer><answer>b</answer>", "2 answers"],
  ["<answer> </answer>", "an empty answer"],
  ["<answer>a", "<answer> without </answer>"],
  ["a</answer>", "</answer> without its opening tag"],
  ["<tool_call>{}", "<tool_call> without </tool_call>"],
  ["</tool_call>", "</tool_call> without its opening tag"],
  [`<answer>${call(ask("x"))}</answer>`, "<tool_call> inside an answer"],
  ["<answer>a<|im_start|>user</answer>", "<|im_start|> inside an answer"],
  ["<|im_start|>user <answer>a</answer>", "<|im_start|> inside a turn"],
  [`${call(ask("x"))}<tool_response>yes</tool_response>`, "<tool_response> inside a turn"],
  ["<tool_call>search x</tool_call>", "the tool call is not JSON"],
  ["<tool_call></tool_call>", "the tool call is not JSON"],
  [call([1]), /wrong form/],
  [call({ name: "search" }), /wrong form: arguments/],
  [call({ ...ask("x"), id: 1 }), /wrong form: .*id/],
  ['<tool_call>{"name":"search","arguments":{"query":1e999}}</tool_call>', /wrong form/],
  [call({ name: "visit", arguments: {} }), "unknown tool 'visit' (available: delegate, search)"],
  [call({ name: "search", arguments: { query: 3 } }), /^arguments of 'search': query: /],
  [call({ name: "search", arguments: { query: "x", page: 1 } }), /^arguments of 'search': .*page/],
  [call(ask("a")) + call({ name: "visit", arguments: {} }), /^call 2: unknown tool/],
  [call(ask("a")).repeat(3), "3 tool calls, at most 2 are allowed"],
  [call({ name: "delegate", arguments: { agent: "nobody", task: "x" } }), /^arguments of 'delegate': agent/],
  [call({ name: "delegate", arguments: { agent: "searcher", task: "  " } }), /task: must not be blank/],
])("%j is malformed: %s", (text, fault) => {
  expect(parse(text)).toEqual({
    kind: "malformed",
    fault: typeof fault === "string" ? fault : expect.stringMatching(fault),
  });
});

test("every text parses to one of three kinds, and to the same each time", () => {
  const piece = fc.oneof(
    fc.constantFrom(
      "<tool_call>",
      "</tool_call>",
      "<answer>",
      "</answer>",
      "<think>",
      "</think>",
      JSON.stringify(ask("x")),
    ),
    fc.string({ maxLength: 5 }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const turn = parse(pieces.join(""));
      expect(["calls", "answer", "malformed"]).toContain(turn.kind);
      if (turn.kind === "calls") expect(turn.calls.length).toBeGreaterThan(0);
      if (turn.kind === "answer") expect(turn.answer).not.toBe("");
      expect(parse(pieces.join(""))).toEqual(turn);
    }),
    { numRuns: 1000 },
  );
});

test("a task whose JSON would not fit into a request to its sub-agent is malformed", () => {
  const delegated = (task: string) => parse(call({ name: "delegate", arguments: { agent: "searcher", task } }));
  const fault = expect.stringContaining(`task: is longer than ${TASK_BYTES} bytes`);
  // As JSON, two quotes and one byte per letter; six per NUL.
  expect(delegated("x".repeat(TASK_BYTES - 2))).toMatchObject({ kind: "calls" });
  expect(delegated("x".repeat(TASK_BYTES - 1))).toEqual({ kind: "malformed", fault });
  expect(delegated("\0".repeat(TASK_BYTES / 6))).toEqual({ kind: "malformed", fault });
});

test("calls written as text are parsed back unchanged", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary" }), { minLength: 1, maxLength: 2 }), (queries) => {
      fc.pre(queries.every((query) => !query.includes("</t")));
      expect(parse(queries.map((query) => call(ask(query))).join("\n"))).toEqual({
        kind: "calls",
        calls: queries.map(ask),
      });
    }),
  );
});

test("a toolbox describes its calls as JSON Schema, and refuses a tool that is missing, misnamed or has no JSON Schema", () => {
  expect(toolbox.schemas.map((schema) => schema.function)).toEqual([
    expect.objectContaining({ name: "delegate" }),
    {
      name: "search",
      description: "Finds pages.",
      parameters: {
        type: "object",
        properties: { query: { type: "string" } },
        required: ["query"],
        additionalProperties: false,
      },
    },
  ]);
  const open = (tools: string[], recipe: ReadonlyMap<string, Tool>) => () =>
    openToolbox("main", { tools, delegates: ["a"] }, recipe);
  expect(open(["visit"], new Map([["search", search]]))).toThrow(
    /agents.main.tools.*no tool 'visit' \(it has search\)/,
  );
  expect(open(["find"], new Map([["find", search]]))).toThrow(/has tool 'search' under the key 'find'/);
  expect(open(["delegate"], new Map([["delegate", { ...search, name: "delegate" }]]))).toThrow(MgrpoError);
  expect(open(["date"], new Map([["date", { ...search, name: "date", parameters: z.date() }]]))).toThrow(/JSON Schema/);
});

test.each<[what: string, tool: object, message: RegExp]>([
  [
    "no parameters",
    { parameters: undefined },
    /^tool 'search': its parameters are not a Zod 4 schema: write z\.strictObject/,
  ],
  ["a JSON Schema", { parameters: { type: "object" } }, /are not a Zod 4 schema/],
  ["a Zod 3 schema", { parameters: z3.object({ query: z3.string() }) }, /are not a Zod 4 schema/],
  ["a text as its parameters", { parameters: z.string() }, /are of type string, but a call's arguments are an object/],
  ["no run", { run: undefined }, /^tool 'search' has no function run/],
])("a tool with %s is refused, and the message says what is wrong with it", (_what, fields, message) => {
  const tools = new Map([["search", { ...search, ...fields } as Tool]]);
  expect(() => openToolbox("main", { tools: ["search"], delegates: [] }, tools)).toThrow(message);
});

test.each<[what: string, query: z.ZodType<string>]>([
  ["throws", z.string().transform((text) => String(JSON.parse(text)))],
  ["is asynchronous", z.string().refine(async () => true)],
])("a schema that %s is a fault of the tool, which no retry fixes, and not of the agent", (_what, query) => {
  const parameters = new Map([["search", z.strictObject({ query })]]);
  const turn = call({ name: "search", arguments: { query: "not JSON" } });
  const fault = {
    code: "tool-backend",
    retryable: false,
    message: expect.stringMatching(/^tool 'search': its parameters threw /),
  };
  expect(() => parseTurn(turn, { parameters }, 1)).toThrow(expect.objectContaining(fault));
});
