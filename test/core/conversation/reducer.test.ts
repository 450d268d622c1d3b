/** @file A conversation as a reducer: one worked by hand, every stop reason, and the laws of its limits. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { AgentConfig } from "../../../core/contracts/agent-config.ts";
import { Conversation, type ToolResponse } from "../../../core/contracts/conversation.ts";
import {
  advanceConversation,
  type ConversationCommand,
  type ConversationEvent,
  type ConversationRules,
  openConversation,
} from "../../../core/conversation/reducer.ts";
import { openToolbox } from "../../../core/conversation/toolbox.ts";

const toolbox = openToolbox("main", { tools: [], delegates: ["a", "b"] }, new Map());
const rules = (limits: Partial<ConversationRules["limits"]> = {}): ConversationRules => ({
  limits: { ...AgentConfig.parse({ model: "m" }).limits, ...limits },
  toolbox,
});
const delegate = (agent: string, task: string) =>
  `<tool_call>${JSON.stringify({ name: "delegate", arguments: { agent, task } })}</tool_call>`;
const responses = (...texts: string[]): ToolResponse[] => texts.map((text) => ({ name: "delegate", text }));
const sampled = (text: string, tokens = 10, stop: "stop" | "length" = "stop"): ConversationEvent => ({
  kind: "sampled",
  text,
  tokens,
  stop,
});

function play(events: readonly ConversationEvent[], under = rules()): ConversationCommand[] {
  let state = openConversation("q");
  return events.map((event) => {
    const next = advanceConversation(state, event, under);
    state = next.state;
    return next.command;
  });
}

test("a conversation by hand: a question, delegations in two turns, their reports, an answer", () => {
  const asks = delegate("a", "x") + delegate("b", "y");
  const [first, calls, second, again, third, end] = play([
    { kind: "opened", promptTokens: 20 },
    sampled(asks, 30),
    { kind: "responded", responses: responses("1", "2"), tokens: 15 },
    sampled(delegate("a", "z"), 10),
    { kind: "responded", responses: responses("3"), tokens: 8 },
    sampled("<answer>3</answer>", 5),
  ]);
  expect(first).toEqual({ kind: "sample", turn: 0, maxTokens: 64 });
  expect(calls).toEqual({
    kind: "call",
    calls: [
      { kind: "delegate", agent: "a", task: "x", call: 0 },
      { kind: "delegate", agent: "b", task: "y", call: 1 },
    ],
  });
  expect(second).toEqual({ kind: "sample", turn: 1, maxTokens: 64 });
  expect(again).toEqual({ kind: "call", calls: [{ kind: "delegate", agent: "a", task: "z", call: 2 }] });
  expect(third).toEqual({ kind: "sample", turn: 2, maxTokens: 64 });
  expect(end).toMatchObject({ kind: "finish", conversation: { stop: "answered", answer: "3", fault: null } });
  const { conversation } = end as Extract<ConversationCommand, { kind: "finish" }>;
  expect(Conversation.parse(conversation)).toEqual(conversation);
  expect(conversation.turns.map((turn) => turn.responses.map(({ text }) => text))).toEqual([["1", "2"], ["3"], []]);
});

test.each<[string, ConversationEvent[], Partial<ConversationRules["limits"]>, Partial<Conversation>]>([
  [
    "a malformed turn",
    [sampled("hm")],
    {},
    { stop: "malformed", answer: null, fault: "neither a tool call nor an answer" },
  ],
  [
    "a turn cut at its token limit",
    [sampled("<answer>x</answer>", 64, "length")],
    {},
    { stop: "token-limit", answer: null, fault: null },
  ],
  [
    "calls in the last turn, which do not run",
    [sampled(delegate("a", "x"))],
    { turns: 1 },
    { stop: "turn-limit", fault: null },
  ],
  ["an answer in the last turn", [sampled("<answer>x</answer>")], { turns: 1 }, { stop: "answered", answer: "x" }],
  [
    "responses that leave no room",
    // 20 + 10 + 70 = 100: nothing left for the next turn.
    [sampled(delegate("a", "x")), { kind: "responded", responses: responses("long"), tokens: 70 }],
    { contextTokens: 100 },
    { stop: "token-limit", fault: null },
  ],
])("the conversation ends after %s", (_, events, limits, expected) => {
  const commands = play([{ kind: "opened", promptTokens: 20 }, ...events], rules(limits));
  expect(commands.at(-1)).toMatchObject({ kind: "finish", conversation: expected });
  expect(commands.slice(0, -1).every(({ kind }) => kind !== "finish")).toBe(true);
});

test("a prompt that fills the context ends the conversation without a turn; with one token of room, a turn may have one token", () => {
  expect(play([{ kind: "opened", promptTokens: 511 }])).toEqual([{ kind: "sample", turn: 0, maxTokens: 1 }]);
  expect(play([{ kind: "opened", promptTokens: 512 }])).toMatchObject([
    { kind: "finish", conversation: { stop: "token-limit", turns: [] } },
  ]);
});

test("no turn is ever allowed more than turnTokens, or more than contextTokens leaves", () => {
  const turn = fc.record({ tokens: fc.integer({ min: 1, max: 40 }), response: fc.integer({ min: 1, max: 60 }) });
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 6 }), fc.integer({ min: 1, max: 40 }), (turns, turnTokens) => {
      const under = rules({ contextTokens: 120, turnTokens, turns: 4 });
      let next = advanceConversation(openConversation("q"), { kind: "opened", promptTokens: 20 }, under);
      for (const { tokens, response } of turns) {
        if (next.command.kind !== "sample") break;
        expect(next.command.maxTokens).toBe(Math.min(turnTokens, 120 - next.state.tokens));
        expect(next.command.turn).toBeLessThan(4);
        const used = Math.min(tokens, next.command.maxTokens);
        next = advanceConversation(next.state, sampled(delegate("a", "x"), used), under);
        if (next.command.kind !== "call") break;
        next = advanceConversation(
          next.state,
          { kind: "responded", responses: responses("r"), tokens: response },
          under,
        );
      }
      expect(next.command.kind === "finish" || next.state.turns.length === turns.length).toBe(true);
    }),
  );
});
