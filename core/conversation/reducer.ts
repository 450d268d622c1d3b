/**
 * @file One agent's conversation as a reducer: (state, event) -> next state and what to do now. It holds text and counts of tokens,
 * never tokens: those are the worker's (gpu-workers/rollouts/converse.ts).
 *
 *               fits                     calls
 *     opened ────────> sample ──sampled──────────> call ──responded──> sample …
 *        │               ▲  │                        │                    (fits)
 *        │ too long      │  │ answer: answered       │
 *        ▼               │  │ malformed              │ no room for the responses: token-limit
 *     finish <───────────┴──┴ no end of turn: token-limit; calls in the last turn: turn-limit
 *
 * Every finish is the agent's own doing, to be rewarded and trained on. Infrastructure failures are no events: they reject the whole
 * conversation outside, so they can never become text.
 */
import type { AgentConfig } from "../contracts/agent-config.ts";
import type { Conversation, ToolCall, ToolResponse, Turn } from "../contracts/conversation.ts";
import { DELEGATE, DelegateArguments, type Toolbox } from "./toolbox.ts";
import { parseTurn } from "./turn.ts";

export interface Rules {
  readonly limits: AgentConfig["limits"];
  readonly toolbox: Pick<Toolbox, "parameters" | "delegates">;
}

export interface State {
  readonly prompt: string;
  readonly turns: readonly Turn[];
  /** Tokens of the conversation so far. */
  readonly tokens: number;
  /** Delegations so far: the next one's call index. */
  readonly delegations: number;
}

export type Event =
  | { readonly kind: "opened"; readonly promptTokens: number }
  /** `tokens` counts the end-of-turn token; `text` is without it. */
  | { readonly kind: "sampled"; readonly text: string; readonly tokens: number; readonly stop: "stop" | "length" }
  /** In the order of the calls, as the model would see them; `tokens`: what they and the next turn's opening take. */
  | { readonly kind: "responded"; readonly responses: readonly ToolResponse[]; readonly tokens: number };

/** A call to run. Those of one command run in parallel; `call` counts delegations over the conversation, in text order. */
export type PlannedCall =
  | { readonly kind: "tool"; readonly name: string; readonly arguments: ToolCall["arguments"] }
  | { readonly kind: "delegate"; readonly agent: string; readonly task: string; readonly call: number };

export type Command =
  | { readonly kind: "sample"; readonly turn: number; readonly maxTokens: number }
  | { readonly kind: "call"; readonly calls: readonly PlannedCall[] }
  | { readonly kind: "finish"; readonly conversation: Conversation };

export interface Transition {
  readonly state: State;
  readonly command: Command;
}

export function openConversation(prompt: string): State {
  return { prompt, turns: [], tokens: 0, delegations: 0 };
}

export function advance(state: State, event: Event, rules: Rules): Transition {
  switch (event.kind) {
    case "opened":
      return sampleOrStop({ ...state, tokens: event.promptTokens }, rules);
    case "sampled":
      return read(state, event, rules);
    case "responded": {
      const turns = state.turns.with(-1, { ...lastTurn(state), responses: [...event.responses] });
      return sampleOrStop({ ...state, turns, tokens: state.tokens + event.tokens }, rules);
    }
  }
}

function read(state: State, event: Extract<Event, { kind: "sampled" }>, rules: Rules): Transition {
  const said = (calls: readonly ToolCall[]): State => ({
    ...state,
    turns: [...state.turns, { text: event.text, calls: [...calls], responses: [] }],
    tokens: state.tokens + event.tokens,
  });
  if (event.stop === "length") return finish(said([]), "token-limit");
  const turn = parseTurn(event.text, rules.toolbox, rules.limits.calls);
  if (turn.kind === "malformed") return finish(said([]), "malformed", { fault: turn.fault });
  if (turn.kind === "answer") return finish(said([]), "answered", { answer: turn.answer });
  const next = said(turn.calls);
  // Nobody would read the responses to calls of the last turn.
  if (next.turns.length >= rules.limits.turns) return finish(next, "turn-limit");
  const calls = plan(turn.calls, state.delegations, rules);
  const delegations = state.delegations + calls.filter(({ kind }) => kind === "delegate").length;
  return { state: { ...next, delegations }, command: { kind: "call", calls } };
}

function plan(calls: readonly ToolCall[], delegations: number, { toolbox }: Rules): PlannedCall[] {
  let call = delegations;
  return calls.map((planned) => {
    if (planned.name !== DELEGATE || toolbox.delegates.length === 0) return { kind: "tool", ...planned };
    const { agent, task } = DelegateArguments.parse(planned.arguments);
    return { kind: "delegate", agent, task, call: call++ };
  });
}

/** A turn needs room for one token at least; it gets what is left of `contextTokens`, at most `turnTokens`. */
function sampleOrStop(state: State, { limits }: Rules): Transition {
  const room = limits.contextTokens - state.tokens;
  if (room < 1) return finish(state, "token-limit");
  const maxTokens = Math.min(limits.turnTokens, room);
  return { state, command: { kind: "sample", turn: state.turns.length, maxTokens } };
}

function finish(
  state: State,
  stop: Conversation["stop"],
  detail: { answer?: string; fault?: string } = {},
): Transition {
  const { answer = null, fault = null } = detail;
  const conversation = { prompt: state.prompt, turns: [...state.turns], stop, answer, fault };
  return { state, command: { kind: "finish", conversation } };
}

function lastTurn(state: State): Turn {
  const turn = state.turns.at(-1);
  if (!turn) throw new RangeError("responses before any turn");
  return turn;
}
