/**
 * @file One agent's conversation as a reducer: (state, event) -> (state, command). It has text and token counts, never tokens: those stay
 * in the worker (gpu-workers/rollouts/converse.ts).
 *
 *               fits                     calls
 *     opened ────────> sample ──sampled──────────> call ──responded──> sample …
 *        │               ▲  │                        │                    (fits)
 *        │ too long      │  │ answer: answered       │
 *        ▼               │  │ malformed              │ no room for the responses: token-limit
 *     finish <───────────┴──┴ no end of turn: token-limit; calls in the last turn: turn-limit
 *
 * Every finish counts as the agent's own doing. Infrastructure failures are not events: they reject the whole conversation, so they never
 * become text.
 */
import type { AgentConfig } from "../contracts/agent-config.ts";
import type { Conversation, ToolCall, ToolResponse, Turn } from "../contracts/conversation.ts";
import { parseTurn } from "./parse-turn.ts";
import { DELEGATE, DelegateArguments, type Toolbox } from "./toolbox.ts";

export interface ConversationRules {
  readonly limits: AgentConfig["limits"];
  readonly toolbox: Pick<Toolbox, "parameters" | "delegates">;
}

export interface ConversationState {
  readonly prompt: string;
  readonly turns: readonly Turn[];
  /** Tokens of the conversation so far. */
  readonly tokens: number;
  /** Number of delegations so far, which is the call index of the next one. */
  readonly delegations: number;
}

/** The token counts of an agent behind an API come with `sampled` alone; the others are 0. */
export type ConversationEvent =
  | { readonly kind: "opened"; readonly promptTokens: number }
  /** `tokens` counts the end-of-turn token; `text` excludes it. */
  | { readonly kind: "sampled"; readonly text: string; readonly tokens: number; readonly stop: "stop" | "length" }
  /** In the order of the calls, as the model will see them. `tokens` includes the opening of the next turn. */
  | { readonly kind: "responded"; readonly responses: readonly ToolResponse[]; readonly tokens: number };

/** A call to run, in parallel with the others of its command. `call` counts the conversation's delegations, in text order. */
export type PlannedCall =
  | { readonly kind: "tool"; readonly name: string; readonly arguments: ToolCall["arguments"] }
  | { readonly kind: "delegate"; readonly agent: string; readonly task: string; readonly call: number };

export type ConversationCommand =
  | { readonly kind: "sample"; readonly turn: number; readonly maxTokens: number }
  | { readonly kind: "call"; readonly calls: readonly PlannedCall[] }
  | { readonly kind: "finish"; readonly conversation: Conversation };

export interface Transition {
  readonly state: ConversationState;
  readonly command: ConversationCommand;
}

/** The state before the event `opened`, which counts the tokens of the rendered prompt. `prompt`: the question or the subtask, recorded as given. */
export function openConversation(prompt: string): ConversationState {
  return { prompt, turns: [], tokens: 0, delegations: 0 };
}

/**
 * The next state, and the one command to carry out: sample a turn of at most `maxTokens`, run the calls of the turn, or finish. What the agent
 * does wrong never throws: it finishes the conversation. Throws `RangeError` for `responded` before any turn, and `tool-backend` if a tool's
 * schema throws.
 */
export function advanceConversation(
  state: ConversationState,
  event: ConversationEvent,
  rules: ConversationRules,
): Transition {
  switch (event.kind) {
    case "opened":
      return sampleOrStop({ ...state, tokens: event.promptTokens }, rules);
    case "sampled":
      return readTurn(state, event, rules);
    case "responded": {
      const turns = state.turns.with(-1, { ...lastTurn(state), responses: [...event.responses] });
      return sampleOrStop({ ...state, turns, tokens: state.tokens + event.tokens }, rules);
    }
  }
}

function readTurn(
  state: ConversationState,
  event: Extract<ConversationEvent, { kind: "sampled" }>,
  rules: ConversationRules,
): Transition {
  const withTurn = (calls: readonly ToolCall[]): ConversationState => ({
    ...state,
    turns: [...state.turns, { text: event.text, calls: [...calls], responses: [] }],
    tokens: state.tokens + event.tokens,
  });
  if (event.stop === "length") return finish(withTurn([]), "token-limit");
  const turn = parseTurn(event.text, rules.toolbox, rules.limits.calls);
  if (turn.kind === "malformed") return finish(withTurn([]), "malformed", { fault: turn.fault });
  if (turn.kind === "answer") return finish(withTurn([]), "answered", { answer: turn.answer });
  const next = withTurn(turn.calls);
  // No turn is left to read the responses.
  if (next.turns.length >= rules.limits.turns) return finish(next, "turn-limit");
  const calls = plan(turn.calls, state.delegations, rules);
  const delegations = state.delegations + calls.filter(({ kind }) => kind === "delegate").length;
  return { state: { ...next, delegations }, command: { kind: "call", calls } };
}

function plan(calls: readonly ToolCall[], delegations: number, { toolbox }: ConversationRules): PlannedCall[] {
  let call = delegations;
  return calls.map((planned) => {
    if (planned.name !== DELEGATE || toolbox.delegates.length === 0) return { kind: "tool", ...planned };
    const { agent, task } = DelegateArguments.parse(planned.arguments);
    return { kind: "delegate", agent, task, call: call++ };
  });
}

/** A turn gets what is left of `contextTokens`, at most `turnTokens`, and at least one token. */
function sampleOrStop(state: ConversationState, { limits }: ConversationRules): Transition {
  const room = limits.contextTokens - state.tokens;
  if (room < 1) return finish(state, "token-limit");
  const maxTokens = Math.min(limits.turnTokens, room);
  return { state, command: { kind: "sample", turn: state.turns.length, maxTokens } };
}

function finish(
  state: ConversationState,
  stop: Conversation["stop"],
  detail: { answer?: string; fault?: string } = {},
): Transition {
  const { answer = null, fault = null } = detail;
  const conversation = { prompt: state.prompt, turns: [...state.turns], stop, answer, fault };
  return { state, command: { kind: "finish", conversation } };
}

function lastTurn(state: ConversationState): Turn {
  const turn = state.turns.at(-1);
  if (!turn) throw new RangeError("responses before any turn");
  return turn;
}
