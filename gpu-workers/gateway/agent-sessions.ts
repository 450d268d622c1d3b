/**
 * @file The sessions of one agent in the process that hosts it: each keeps the tree of an attempt's conversations, with tokens as sampled.
 *
 *     turn ──> known request: its reply, or the sample in flight      a retry never samples again
 *         └──> placed in the tree ──> prefix of the parent, as sampled, + new messages ──> sampled ──> reply
 *     end  ──> the branches whose replies were delivered, the same if repeated
 *     discard ──> forgotten
 */
import type { AgentSession, TurnReply, TurnRequest } from "../../core/contracts/app-chat.ts";
import type { BranchCounts } from "../../core/contracts/rollout.ts";
import { MgrpoError } from "../../core/errors.ts";
import { type Branch, countsOf, type SampledTurn } from "../../core/gateway/branch.ts";
import { type Exchange, MessageTree } from "../../core/gateway/message-tree.ts";
import type { Tokenizer } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import { sha256 } from "../../engine/hash.ts";
import { type MessageLayout, openMessageLayout } from "../../engine/tokenizer/message-layout.ts";
import { cancelable } from "../limits.ts";
import { acquireLease, type HostedAgent } from "../rollouts/agent.ts";
import { scopeOf, streamName } from "../rollouts/draws.ts";
import type { Inference } from "../rollouts/policy-versions.ts";
import { BranchSequences } from "./branch-sequences.ts";
import { type ContextLimit, overflow, tooManyMessagesFault, tooMuchTextFault } from "./context-room.ts";
import { withCutResponses } from "./cut-responses.ts";
import { LimitReached } from "./limit-reached.ts";
import { renderOrRefuse } from "./refused-request.ts";
import { inferenceOf, sampleTurn, type TurnPlan } from "./sample-turn.ts";

/** An agent's part of an attempt, at its end. */
export interface SessionResult {
  readonly branches: readonly Branch[];
  readonly counts: BranchCounts;
}

/** The sessions of one agent, as an attempt uses them. */
export type Sessions = Pick<AgentSessions, "turn" | "end" | "discard">;

/** Limit on the lists of tools whose layouts are kept, per tokenizer: an app may describe its tools differently in each rollout. */
const MAX_LAYOUTS = 64;

interface OpenSession {
  readonly session: AgentSession;
  readonly tree: MessageTree<SampledTurn>;
  readonly replies: Map<string, Promise<TurnReply>>;
  readonly sequences: BranchSequences;
  readonly ended: AbortController;
  /** Exchange -> the first that continues its reply. */
  readonly continuedBy: Map<string, string>;
  /** Exchanges that begin a branch. */
  readonly begun: Set<string>;
}

export class AgentSessions {
  readonly #agent: HostedAgent;
  readonly #purpose: StreamName;
  readonly #maxBranches: number;
  readonly #open = new Map<string, OpenSession>();
  /** Sessions that are over, by id, with their step: a late request does not reopen them. */
  readonly #over = new Map<string, number>();
  readonly #staleness: number;
  readonly #layouts = new WeakMap<Tokenizer, Map<string, MessageLayout>>();

  /**
   * @param purpose the first parts of the names of random streams: run seed and purpose.
   * @param maxBranches limit on the conversations of a session.
   * @param staleness how many earlier steps may be sampled alongside a session's own.
   */
  constructor(agent: HostedAgent, purpose: StreamName, maxBranches: number, staleness: number) {
    this.#agent = agent;
    this.#purpose = purpose;
    this.#maxBranches = maxBranches;
    this.#staleness = staleness;
  }

  /**
   * Opens the session with its first turn. A repeated request gets the same reply. Rejects with `LimitReached`, `request-refused`, an
   * infrastructure failure, or with `canceled` when the session ends or the signal aborts. If the signal aborts during a turn, the turn
   * continues, for a retry of the request.
   */
  async turn(session: AgentSession, request: TurnRequest, signal: AbortSignal): Promise<TurnReply> {
    const hasEnded = this.#over.has(session.id) || this.#open.get(session.id)?.ended.signal.aborted;
    if (signal.aborted || hasEnded) throw new MgrpoError("canceled", "the session has ended");
    const open = this.#opened(session);
    const reply = await cancelable(this.#turn(open, request), signal);
    open.tree.markContinuable(reply.exchange);
    return reply;
  }

  /**
   * Closes the session: turns in flight are canceled, and nothing more is sampled. The result is the same if repeated, until the session is
   * discarded. Throws `session-lost` if this process lacks a delivered reply: it has lost the session, or never had it.
   */
  end(id: string, delivered: readonly string[]): SessionResult {
    const open = this.#open.get(id);
    if (open) close(open);
    if (!delivered.every((exchange) => open?.tree.has(exchange))) {
      const message = `agent '${this.#agent.name}' has lost session ${id}: it has no record of a reply that was delivered`;
      throw new MgrpoError("session-lost", message, { retryable: true });
    }
    const branches = open?.tree.branches(new Set(delivered)) ?? [];
    return { branches, counts: countsOf(branches) };
  }

  /** Closes and forgets the session, if this process has it. */
  discard(id: string): void {
    const open = this.#open.get(id);
    if (!open) return;
    this.#open.delete(id);
    this.#over.set(id, open.session.address.step);
    close(open);
  }

  /** Forgets the sessions of steps before this one: their callers are gone. */
  #discardBefore(step: number): void {
    for (const [id, { session }] of this.#open) if (session.address.step < step) this.discard(id);
    for (const [id, lastStep] of this.#over) if (lastStep < step) this.#over.delete(id);
  }

  #opened(session: AgentSession): OpenSession {
    const known = this.#open.get(session.id);
    if (known) return known;
    // Sessions of the oldest step that is sampled alongside this one, and of the step before that, may still be open.
    this.#discardBefore(session.address.step - 1 - this.#staleness);
    const open: OpenSession = {
      session,
      tree: new MessageTree<SampledTurn>(sha256),
      replies: new Map(),
      sequences: new BranchSequences(`${session.agent}/${session.id}`),
      ended: new AbortController(),
      continuedBy: new Map(),
      begun: new Set<string>(),
    };
    this.#open.set(session.id, open);
    return open;
  }

  async #turn(open: OpenSession, sent: TurnRequest): Promise<TurnReply> {
    const signal = open.ended.signal;
    const lease = await acquireLease(this.#agent.policy, open.session.version, signal);
    try {
      const inference = inferenceOf(lease, this.#agent.name);
      refuseOverlong(tooManyMessagesFault(sent.messages, this.#contextLimit));
      const request = renderOrRefuse(() => this.#asShown(sent, inference.tokenizer));
      const layout = renderOrRefuse(() => this.#layoutOf(inference.tokenizer, request.tools));
      const { id, parent, added } = open.tree.place(request, layout.shownTools);
      const known = open.replies.get(id);
      if (known) return await known;
      this.#admit(open, id, parent);
      const { messages, variant } = request;
      const exchange = { id, parent, added, depth: parent ? parent.depth + 1 : 0, messages, variant };
      const reply = this.#sample(open, exchange, { request, layout, inference }, signal).catch((error: unknown) => {
        // A failed turn is not a reply: the next request samples again.
        forget(open, id, parent);
        throw error;
      });
      open.replies.set(id, reply);
      return await reply;
    } finally {
      lease.release();
    }
  }

  /** The request with its tool responses cut. Throws `LimitReached` if those are far too long. */
  #asShown(request: TurnRequest, tokenizer: Tokenizer): TurnRequest {
    const messages = withCutResponses(request.messages, this.#agent.config.limits, tokenizer);
    if (messages) return { ...request, messages };
    throw new LimitReached("token-limit", overflow(this.#contextLimit));
  }

  /** A request begins a branch unless it is the first to continue its parent's reply. */
  #admit(open: OpenSession, id: string, parent: Exchange<SampledTurn> | undefined): void {
    if (parent && !open.continuedBy.has(parent.id)) {
      open.continuedBy.set(parent.id, id);
      return;
    }
    if (open.begun.size >= this.#maxBranches) {
      const message = `agent '${this.#agent.name}' has reached its limit of ${this.#maxBranches} conversations in this rollout (the main agent's limits.turns times limits.calls)`;
      throw new LimitReached("turn-limit", message);
    }
    open.begun.add(id);
  }

  async #sample(
    open: OpenSession,
    exchange: Omit<Exchange<SampledTurn>, "turn">,
    { request, layout, inference }: SamplingInputs,
    signal: AbortSignal,
  ): Promise<TurnReply> {
    const { session } = open;
    this.#requireTurn(exchange);
    const prefix = renderOrRefuse(() => this.#prefixOf(exchange, layout, inference.tokenizer));
    const scope = scopeOf(this.#purpose, session.address, session.agent);
    const isFirst = exchange.parent !== undefined && open.continuedBy.get(exchange.parent.id) === exchange.id;
    const plan: TurnPlan = {
      agent: this.#agent.name,
      version: session.version,
      exchange: exchange.id,
      request,
      prefix,
      maxTokens: this.#room(prefix.length, request),
      maxCalls: this.#agent.config.limits.calls,
      sampling: session.sampling,
      ...open.sequences.of(exchange.id, exchange.parent, isFirst, inference.sampler),
      // A request's place follows from its content, not its time: an app that makes the same requests gets the same replies.
      stream: streamName(this.#agent.draws, scope, ["app", exchange.id], prefix),
    };
    const { turn, reply } = await sampleTurn(inference, plan, signal);
    open.tree.add({ ...exchange, turn }, reply, layout.shownTools);
    return reply;
  }

  /** The parent's tokens as they were sampled, then the new messages. Throws `LimitReached` if the new messages cannot fit the context. */
  #prefixOf(
    { parent, added, messages }: Omit<Exchange<SampledTurn>, "turn">,
    layout: MessageLayout,
    { encodeText, endOfTurn, ends }: Tokenizer,
  ): number[] {
    const known = parent?.turn.tokens ?? [];
    const tokens = this.#contextLimit.contextTokens - known.length;
    const room = { tokens, count: (text: string) => encodeText(text).length };
    const [fresh, tools] = parent ? [added, []] : [messages, layout.shownTools];
    refuseOverlong(tooMuchTextFault(fresh, tools, room, this.#contextLimit));
    if (!parent) return layout.opening(messages);
    // A turn that was cut has no end token: one is added before the app's next message.
    const end = ends.includes(known.at(-1) ?? Number.NaN) ? [] : [endOfTurn];
    return [...known, ...end, ...layout.continuation(parent.messages, added)];
  }

  get #contextLimit(): ContextLimit {
    return { agent: this.#agent.name, contextTokens: this.#agent.config.limits.contextTokens };
  }

  /** Throws `LimitReached` if the conversation may have no further turn. */
  #requireTurn({ depth }: { depth: number }): void {
    const { turns } = this.#agent.config.limits;
    if (depth < turns) return;
    const message = `the conversation has reached its limit of ${turns} turns (agents.${this.#agent.name}.limits.turns)`;
    throw new LimitReached("turn-limit", message);
  }

  /** Limit on the new tokens of a turn. Throws `LimitReached` if there is no room for any. */
  #room(tokens: number, { maxTokens }: TurnRequest): number {
    const { turnTokens, contextTokens } = this.#agent.config.limits;
    const room = contextTokens - tokens;
    if (room < 1) {
      const message = `the conversation takes ${tokens} tokens, and agents.${this.#agent.name}.limits.contextTokens is ${contextTokens}`;
      throw new LimitReached("token-limit", message);
    }
    return Math.min(turnTokens, room, maxTokens ?? turnTokens);
  }

  #layoutOf(tokenizer: Tokenizer, tools: TurnRequest["tools"]): MessageLayout {
    const known = this.#layouts.get(tokenizer) ?? new Map<string, MessageLayout>();
    this.#layouts.set(tokenizer, known);
    const key = JSON.stringify(tools);
    const found = known.get(key);
    if (found) return found;
    if (known.size >= MAX_LAYOUTS) known.clear();
    const { thinking, toolPrompt } = this.#agent.config;
    const settings = { agent: this.#agent.name, system: "", tools, thinking, toolPrompt };
    const layout = openMessageLayout(tokenizer, settings);
    known.set(key, layout);
    return layout;
  }
}

interface SamplingInputs {
  readonly request: TurnRequest;
  readonly layout: MessageLayout;
  readonly inference: Inference;
}

function refuseOverlong(fault: string | undefined): void {
  if (fault !== undefined) throw new LimitReached("token-limit", fault);
}

function close({ ended, sequences }: OpenSession): void {
  ended.abort();
  sequences.release();
}

function forget(open: OpenSession, id: string, parent: Exchange<SampledTurn> | undefined): void {
  open.replies.delete(id);
  open.begun.delete(id);
  if (parent && open.continuedBy.get(parent.id) === id) open.continuedBy.delete(parent.id);
}
