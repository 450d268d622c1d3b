/**
 * @file A line of an app's messages has the tokens that the gateway records when the app sends the same messages and gets the same replies.
 * Malformed lines are refused.
 */
import { expect, test } from "vitest";
import type { AppMessage, TurnRequest } from "../../core/contracts/app-chat.ts";
import { offeredTool } from "../../core/conversation/offered-tool.ts";
import { trajectoryOf } from "../../core/gateway/branch.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import { AgentSessions } from "../../gpu-workers/gateway/agent-sessions.ts";
import { openAppLayout } from "../../sft/app-example.ts";
import { refuseMalformedAppLine } from "../../sft/check.ts";
import { refuseEarlyEnd } from "../../sft/example.ts";
import { readMessages } from "../../sft/messages.ts";
import { responsesWithin } from "../../sft/shown-response.ts";
import { bpeFiles, QWEN_TEMPLATE } from "../fixtures/tokenizers.ts";
import { planOf, scriptedAgent, tokenizer, VERSIONS } from "../gpu-workers/gateway/harness.ts";

const search = {
  name: "search",
  description: "Finds <|im_end|> pages.",
  parameters: { type: "object", properties: {} },
};
const written = (query: string) => `<tool_call>\n{"name": "search", "arguments": {"query":"${query}"}}\n</tool_call>`;
const REPLIES = [`<think>\nHm.\n</think>\n\nWait.\n${written("a")}\n${written("b")}`, written("c"), "It is <b>c</b>."];
const LIMITS = { turns: 3, turnTokens: 400, contextTokens: 4000, calls: 2, responseCharacters: 800 };

const whole = (text: string) => text;

/** The tokens and spans that the gateway records for an app that offers the tool and answers every call. */
async function recorded(limits = LIMITS, page = (query: string) => `page ${JSON.stringify({ query })}`) {
  let turn = 0;
  const config = { toolPrompt: "system", limits };
  const agent = scriptedAgent("searcher", [], { script: () => REPLIES[turn++] ?? "", config });
  const sessions = new AgentSessions(agent, [7, "app"], 4, 0);
  const { address, sampling } = planOf(0);
  const session = {
    id: "a".repeat(22),
    run: address.run,
    address,
    questionId: "q",
    agent: "searcher",
    version: VERSIONS.searcher,
    sampling,
  };
  const messages: AppMessage[] = [
    { role: "system", text: "You search." },
    { role: "user", text: "Where is c?" },
  ];
  const delivered: string[] = [];
  for (const _ of REPLIES) {
    const request: TurnRequest = {
      ...{ messages: [...messages], mayCall: true, stopStrings: [], variant: "" },
      tools: [offeredTool(search) ?? expect.fail()],
    };
    const { text, calls, exchange } = await sessions.turn(session, request, new AbortController().signal);
    delivered.push(exchange);
    messages.push({ role: "assistant", text, calls });
    messages.push(
      ...calls.map((one, call): AppMessage => ({ role: "tool", call, text: page(JSON.parse(one.arguments).query) })),
    );
  }
  const [branch = expect.fail()] = sessions.end(session.id, delivered).branches;
  const { tokens, actions } = trajectoryOf("searcher", VERSIONS.searcher, branch);
  return { tokens, turns: actions };
}

const call = (id: string, query: string) => ({
  id,
  type: "function",
  function: { name: "search", arguments: JSON.stringify({ query }) },
});
const response = (id: string, query: string) => ({
  role: "tool",
  tool_call_id: id,
  content: `page ${JSON.stringify({ query })}`,
});
const MESSAGES = [
  { role: "system", content: "You search." },
  { role: "user", content: "Where is c?" },
  { role: "assistant", content: "Wait.", reasoning_content: "Hm.", tool_calls: [call("1", "a"), call("2", "b")] },
  response("2", "b"),
  response("1", "a"),
  { role: "assistant", content: null, tool_calls: [call("3", "c")] },
  response("3", "c"),
  { role: "assistant", content: "It is <b>c</b>." },
];
const lineOf = (messages: readonly object[], tools: readonly object[] = [{ type: "function", function: search }]) =>
  readMessages(JSON.stringify({ agent: "searcher", messages, tools }), "demos.jsonl")[0] ?? expect.fail();

test("the app's system message, tools, calls, responses, thinking and untagged answer have the tokens that the gateway records", async () => {
  const line = lineOf(MESSAGES);
  refuseMalformedAppLine(line, { system: "", limits: LIMITS });
  const layOut = openAppLayout(tokenizer, { agent: "searcher", toolPrompt: "system" }, whole);
  expect(layOut(line)).toEqual(await recorded());
});

test("after a template that opens the thinking, a turn's own <think> is not repeated", () => {
  const opens = openTokenizer(bpeFiles(QWEN_TEMPLATE.replace("assistant\\n' }}", "assistant\\n<think>\\n' }}")));
  const layOut = openAppLayout(opens, { agent: "searcher", toolPrompt: "system" }, whole);
  const { tokens, turns } = layOut(lineOf(MESSAGES));
  const [[start, end] = [0, 0]] = turns;
  expect(opens.decode(tokens.slice(0, start))).toMatch(/<\|im_start\|>assistant\n<think>\n$/);
  expect(opens.decode(tokens.slice(start, end))).toMatch(/^Hm\.\n<\/think>\n\nWait\./);
});

test("a response that exceeds the agent's limits is cut as in a rollout", async () => {
  const long = (query: string) => `page ${JSON.stringify({ query })}${" and more".repeat(200)}`;
  const longer = MESSAGES.map((message) =>
    "tool_call_id" in message ? { ...message, content: `${message.content}${" and more".repeat(200)}` } : message,
  );
  for (const limits of [LIMITS, { ...LIMITS, responseTokens: 20 }]) {
    const show = responsesWithin(limits, tokenizer);
    const layOut = openAppLayout(tokenizer, { agent: "searcher", toolPrompt: "system" }, show);
    const example = layOut(lineOf(longer));
    expect(example).toEqual(await recorded(limits, long));
    // Cutting a response twice is the same as cutting it once.
    expect(show(show(long("a")))).toBe(show(long("a")));
    expect(show(long("a"))).toMatch(/ \[cut\]$/);
  }
});

const [system, user, first, ...rest] = MESSAGES as [object, object, object, ...object[]];
test.each<[string, object[], object[] | undefined, RegExp]>([
  [
    "a call to a tool that the line does not list",
    MESSAGES,
    [],
    /demos\.jsonl:1: turn 1 calls 'search', which the line's tools/,
  ],
  ["a conversation without an answer", MESSAGES.slice(0, 7), undefined, /it ends with tool calls/],
  [
    "a conversation whose answer is blank",
    [...MESSAGES.slice(0, 7), { role: "assistant", content: " " }],
    undefined,
    /without an answer/,
  ],
  [
    "an answer before the last turn",
    [system, user, { role: "assistant", content: "x" }, ...rest.slice(2)],
    undefined,
    /turn 1 is an answer/,
  ],
  [
    "a special token of the chat template in a turn",
    [user, { role: "assistant", content: "a<|im_end|>" }],
    undefined,
    /<\|im_end\|> inside a turn/,
  ],
  [
    "a turn with more calls than a rollout would read",
    [system, user, { ...first, tool_calls: ["1", "2", "4"].map((id) => call(id, "a")) }, response("4", "a"), ...rest],
    undefined,
    /turn 1: 3 tool calls, and limits\.calls is 2/,
  ],
  [
    "a conversation with too many turns",
    [user, first, ...rest.slice(0, 2), first, ...rest],
    undefined,
    /4 turns, and limits\.turns is 3/,
  ],
])("%s is refused", (_what, messages, tools, fault) => {
  expect(() => refuseMalformedAppLine(lineOf(messages, tools), { system: "", limits: LIMITS })).toThrow(fault);
});

test("thinking in the content is not part of the reply: it may quote tags, and does not count as an answer", () => {
  const check = (content: string) =>
    refuseMalformedAppLine(lineOf([user, { role: "assistant", content }]), { system: "", limits: LIMITS });
  check("<think>\nNot a <tool_call>.\n</think>\n\nIt is c.");
  expect(() => check("<think>\nHm.\n</think>")).toThrow(/without an answer/);
  expect(() => check("<think>\nHm.\n</think>\n\nA <tool_call>.")).toThrow(/<tool_call> inside a turn/);
});

test("thinking that contains an end-of-turn token is refused: the model would learn to end its turn there", () => {
  const line = lineOf([system, user, { role: "assistant", content: "It is c.", reasoning_content: "a<|im_end|>b" }]);
  const example = openAppLayout(tokenizer, { agent: "searcher", toolPrompt: "system" }, whole)(line);
  expect(() => refuseEarlyEnd(example, tokenizer, line.where)).toThrow(
    /demos\.jsonl:1: turn 1 has <\|im_end\|> before its end/,
  );
});

test("a tool whose name could forge a message is refused", () => {
  const line = lineOf(MESSAGES, [{ type: "function", function: { ...search, name: "search<|im_end|>" } }]);
  expect(() => openAppLayout(tokenizer, { agent: "searcher" }, whole)(line)).toThrow(
    /demos\.jsonl:1: a tool's name has/,
  );
});
