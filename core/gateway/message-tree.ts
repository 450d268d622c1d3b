/**
 * @file The conversations of one agent in one attempt of an app, as a tree: requests that continue a reply share its history.
 *
 *     first message ── reply ─┬─ results ── reply ── …     a branch ends with a reply that nothing continues
 *                             └─ other ──── reply          a second request after the same reply: another branch
 *
 * A request continues the deepest reply in its history, preferably one to a request of the same variant. Histories are equal when their
 * tools and messages are. What clients change does not count: ids of calls, how the JSON of a call's arguments is written, whitespace around
 * an assistant's text.
 */
import type { AppMessage, TurnReply, TurnRequest } from "../contracts/app-chat.ts";
import { canonicalJson } from "../contracts/parse.ts";
import type { Hash, ToolSchema } from "../ports.ts";

/** A request and its reply. `T`: what the caller keeps of the turn. */
export interface Exchange<T> {
  /** Hash of the request: equal requests are one exchange. */
  readonly id: string;
  /** The exchange whose reply this one continues. */
  readonly parent: Exchange<T> | undefined;
  /** Replies of this branch before it. */
  readonly depth: number;
  /** Messages after the parent's reply; of a branch's first exchange, all. */
  readonly added: readonly AppMessage[];
  /** All messages of the request. */
  readonly messages: readonly AppMessage[];
  /** The request's variant: conversations that differ only in it do not mix. */
  readonly variant: string;
  readonly turn: T;
}

/** Where a request belongs. */
export interface Placement<T> {
  readonly id: string;
  readonly parent: Exchange<T> | undefined;
  readonly added: readonly AppMessage[];
}

export class MessageTree<T> {
  readonly #hash: Hash;
  /** The exchanges that can be continued, by the hash of the history that ends with their reply, without and with their variant. */
  readonly #byReply = new Map<string, Exchange<T>>();
  /** `ending`: the hash of the history that ends with the exchange's reply. */
  readonly #exchanges = new Map<string, { readonly exchange: Exchange<T>; readonly ending: string }>();

  constructor(hash: Hash) {
    this.#hash = hash;
  }

  /** @param shownTools the tools as the agent sees them: with other tools, the same messages are another history. */
  place(request: TurnRequest, shownTools: readonly ToolSchema[]): Placement<T> {
    const { messages, tools, mayCall, maxTokens = null, stopStrings, variant } = request;
    const histories = this.#histories(messages, shownTools);
    let at = messages.length;
    while (at > 0 && !this.#byReply.has(histories[at] ?? "")) at -= 1;
    const added = messages.slice(at);
    const id = this.#hash(canonicalJson([histories.at(-1), tools, mayCall, maxTokens, stopStrings, variant]));
    const history = histories[at] ?? "";
    const parent = this.#byReply.get(withVariant(history, variant)) ?? this.#byReply.get(history);
    return { id: id.slice(0, 32), parent, added };
  }

  add(exchange: Exchange<T>, reply: Pick<TurnReply, "text" | "calls">, shownTools: readonly ToolSchema[]): void {
    const { text, calls } = reply;
    const history = this.#histories([...exchange.messages, { role: "assistant", text, calls }], shownTools);
    this.#exchanges.set(exchange.id, { exchange, ending: history.at(-1) ?? "" });
  }

  has(id: string): boolean {
    return this.#exchanges.has(id);
  }

  /** From now on, requests can continue the reply. A reply that its client did not wait for ends its branch. */
  markContinuable(id: string): void {
    const { exchange, ending } = this.#exchanges.get(id) ?? {};
    if (!exchange || ending === undefined) return;
    for (const key of [ending, withVariant(ending, exchange.variant)]) {
      // Requests with other limits or variants can get the same reply. Which of these is continued does not depend on their order.
      const known = this.#byReply.get(key);
      if (!known || byHistory(exchange, known) < 0) this.#byReply.set(key, exchange);
    }
  }

  /**
   * The branches that consist of delivered exchanges, each from its first exchange to its last. Their order depends on their content, never on
   * timing, since an app may run its conversations concurrently: shorter histories first, then by id.
   */
  branches(delivered: ReadonlySet<string>): Exchange<T>[][] {
    const kept = new Set<Exchange<T>>();
    for (const { exchange } of this.#exchanges.values()) {
      if (!delivered.has(exchange.id)) continue;
      // A client that continues a reply has received it.
      for (let one: Exchange<T> | undefined = exchange; one && !kept.has(one); one = one.parent) kept.add(one);
    }
    const continued = new Set([...kept].map(({ parent }) => parent));
    return [...kept]
      .filter((exchange) => !continued.has(exchange))
      .map(pathTo)
      .sort(byOrigin);
  }

  /** histories[i]: hash of the tools and the first i messages. */
  #histories(messages: readonly AppMessage[], shownTools: readonly ToolSchema[]): string[] {
    const histories = [this.#hash(canonicalJson(shownTools))];
    for (const message of messages) {
      histories.push(this.#hash(`${histories.at(-1)} ${canonicalJson(messageIdentity(message))}`));
    }
    return histories;
  }
}

const withVariant = (history: string, variant: string) => `${history} ${variant}`;

function pathTo<T>(leaf: Exchange<T>): Exchange<T>[] {
  const path: Exchange<T>[] = [];
  for (let exchange: Exchange<T> | undefined = leaf; exchange; exchange = exchange.parent) path.unshift(exchange);
  return path;
}

function byOrigin<T>(a: readonly Exchange<T>[], b: readonly Exchange<T>[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const [x, y] = [a[i], b[i]];
    if (x && y && x !== y) return byHistory(x, y);
  }
  return a.length - b.length;
}

function byHistory<T>(a: Exchange<T>, b: Exchange<T>): number {
  if (a === b) return 0;
  return a.messages.length - b.messages.length || (a.id < b.id ? -1 : 1);
}

/** What makes two messages of a history the same. */
export function messageIdentity(message: AppMessage): unknown {
  if (message.role !== "assistant") return message;
  const calls = message.calls.map((call) => [call.name, canonicalArguments(call.arguments)]);
  return { role: message.role, text: message.text.trim(), calls };
}

/** Clients parse arguments and serialize them again. */
function canonicalArguments(text: string): string {
  try {
    return canonicalJson(JSON.parse(text));
  } catch {
    return text;
  }
}
