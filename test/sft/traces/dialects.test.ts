/**
 * @file Traces of every convention become the same conversation, apart from the thinking, tools and agent name that some lack, and `mgrpo sft`
 * reads it.
 */
import { expect, test } from "vitest";
import * as z from "zod";
import { refuseMalformed, refuseOtherAgent, type TargetAgent } from "../../../sft/check.ts";
import { readMessages } from "../../../sft/messages.ts";
import { importTraces } from "../../../sft/traces/import.ts";
import { PROMPT, SYSTEM, span, spans, traceFile } from "../../fixtures/traces.ts";
import { imported } from "./imported.ts";

const SEARCHER: TargetAgent = {
  agent: "searcher",
  config: {
    system: SYSTEM,
    limits: { turns: 3, turnTokens: 64, contextTokens: 512, calls: 2, responseCharacters: 100 },
  },
  toolbox: { parameters: new Map([["search", z.strictObject({ query: z.string() })]]) },
};

const THOUGHT = "<think>\nThe encyclopedia has capitals.\n</think>\n\n";

interface Expected {
  readonly agent: string | undefined;
  readonly tools: boolean;
  readonly thought: boolean;
  readonly contained?: number;
  readonly skipped?: number;
}

test.each<[string, Expected]>([
  ["current.jsonl", { agent: "searcher", tools: true, thought: true, contained: 1, skipped: 1 }],
  ["structured.json", { agent: "searcher", tools: true, thought: false }],
  ["event-records.jsonl", { agent: undefined, tools: false, thought: false }],
  ["span-events.jsonl", { agent: undefined, tools: false, thought: false, contained: 1 }],
  ["openinference.jsonl", { agent: "searcher", tools: true, thought: true, contained: 1 }],
  ["ai-sdk.jsonl", { agent: "searcher", tools: true, thought: true, contained: 1 }],
  ["openllmetry.jsonl", { agent: undefined, tools: true, thought: false }],
  ["openai.jsonl", { agent: undefined, tools: true, thought: false }],
])("%s becomes a demonstration", (name, { agent, tools, thought, contained = 0, skipped = 0 }) => {
  const { lines, report } = importTraces([traceFile(name)], { conditions: [], system: true });
  const [line, ...others] = readMessages(lines.map((one) => JSON.stringify(one)).join("\n"), "out.jsonl");
  if (!line) throw new Error("no conversation");
  expect(others).toEqual([]);
  expect([report.contained, report.skipped.size]).toEqual([contained, skipped]);
  expect([line.agent, line.system, line.tools?.map(({ name }) => name)]).toEqual([
    agent,
    SYSTEM,
    tools ? ["search"] : undefined,
  ]);
  refuseOtherAgent(line, SEARCHER);
  refuseMalformed(line, SEARCHER);
  const [turn, answer, ...rest] = line.demonstration.turns;
  expect(line.demonstration.prompt).toBe(PROMPT);
  expect(turn?.text.replace(/"query": ?/, '"query": ')).toBe(
    `${thought ? THOUGHT : ""}<tool_call>\n{"name": "search", "arguments": {"query": "France"}}\n</tool_call>`,
  );
  expect(turn?.responses).toEqual(["France: capital Paris."]);
  expect([answer, ...rest]).toEqual([{ text: "<answer>Paris</answer>", responses: [] }]);
});

test("tools are written as OpenAI's, with their descriptions and parameters", () => {
  const names = ["current.jsonl", "structured.json", "openinference.jsonl", "ai-sdk.jsonl", "openllmetry.jsonl"];
  const parameters = { type: "object", properties: { query: { type: "string" } }, required: ["query"] };
  for (const name of names) {
    const [line] = importTraces([traceFile(name)], { conditions: [], system: true }).lines;
    const search = { name: "search", description: "Searches the encyclopedia.", parameters };
    expect((line as { tools: unknown }).tools, name).toEqual([{ type: "function", function: search }]);
  }
});

test("a tool whose parameters are the JSON `null`, as OpenLLMetry records it, is imported without parameters", () => {
  const attributes = {
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": "Where?",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "Here.",
    "llm.request.functions.0.name": "now",
    "llm.request.functions.0.parameters": "null",
  };
  const { lines } = imported(spans(span({ attributes })));
  expect(lines).toEqual([expect.objectContaining({ tools: [{ type: "function", function: { name: "now" } }] })]);
});

test("a conversation in files of several conventions is imported once per agent that they name, and once for the files that name none", () => {
  const files = ["current.jsonl", "span-events.jsonl", "openinference.jsonl", "ai-sdk.jsonl", "openai.jsonl"].map(
    traceFile,
  );
  const { lines, report } = importTraces(files, { conditions: [], system: true });
  expect(report.taken.map(({ agent, count }) => [agent, count])).toEqual([
    [undefined, 1],
    ["searcher", 1],
  ]);
  const renamed = importTraces(files, { agent: "searcher", as: "main", conditions: [], system: false });
  expect(renamed.lines).toHaveLength(1);
  expect(renamed.report.taken).toEqual([{ agent: "main", count: 1, systems: 0 }]);
  expect(JSON.stringify(lines)).toContain(SYSTEM);
  expect(JSON.stringify(renamed.lines)).not.toContain(SYSTEM);
});

test("a call without content is skipped, and the reason names the setting that captures it", () => {
  const { lines, report } = importTraces([traceFile("no-content.jsonl")], { conditions: [], system: true });
  const setting = expect.stringContaining("set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
  expect(lines).toEqual([]);
  expect([...report.skipped]).toEqual([[setting, { count: 1, first: "no-content.jsonl:1" }]]);
});
