/** @file The conversation in a request, built message by message. Responses to calls are put in the order of the calls. */
import type { AppMessage, AppToolCall } from "../../../core/contracts/app-chat.ts";
import { invalid } from "./errors.ts";

type CallResponse = Extract<AppMessage, { role: "tool" }>;

/** Ids of calls that the gateway assigned: those of one turn differ only in the last number. */
const OWN_ID = /^(call_[0-9a-f]{20})_\d+$/;

export class History {
  readonly #messages: AppMessage[];
  /** Calls of the last assistant message. */
  #calls: AppToolCall[] = [];
  /** Their indices by id; of calls with the same id, the first. */
  #indices = new Map<string, number>();
  #responses: CallResponse[] = [];

  /** @param before messages that the request does not repeat. */
  constructor(before: readonly AppMessage[] = []) {
    this.#messages = [...before];
    const at = before.findLastIndex(({ role }) => role === "assistant");
    const last = before[at];
    if (last?.role === "assistant") this.#messages[at] = { ...last, calls: this.#begin(last.calls) };
  }

  add(role: "system" | "user", text: string): void {
    this.#flush();
    this.#messages.push({ role, text });
  }

  assistant(text: string, calls: readonly AppToolCall[]): void {
    this.#flush();
    this.#messages.push({ role: "assistant", text, calls: this.#begin(calls) });
  }

  /**
   * Adds a call to the preceding assistant message, unless the message already has it. Starts a new message without text if no assistant message
   * precedes the call, or if responses stand between them and the call belongs to another turn.
   */
  call(call: AppToolCall): void {
    const last = this.#messages.at(-1);
    const isSameTurn = this.#responses.length === 0 || turnOf(this.#calls.at(-1)) === turnOf(call);
    if (last?.role !== "assistant" || !isSameTurn) {
      this.assistant("", [call]);
    } else if (!this.#indices.has(call.id)) {
      this.#append(call);
    }
  }

  /** @param where the parameter that names the call. */
  respond(id: string, text: string, where: string): void {
    const call = this.#indices.get(id);
    if (call === undefined) throw invalid(where, `the preceding assistant message has no call '${id}'`);
    this.#responses.push({ role: "tool", call, text });
  }

  messages(): AppMessage[] {
    this.#flush();
    return [...this.#messages];
  }

  /** The calls of a new last assistant message. */
  #begin(calls: readonly AppToolCall[]): AppToolCall[] {
    this.#calls = [];
    this.#indices = new Map();
    for (const call of calls) this.#append(call);
    return this.#calls;
  }

  #append(call: AppToolCall): void {
    if (!this.#indices.has(call.id)) this.#indices.set(call.id, this.#calls.length);
    this.#calls.push(call);
  }

  #flush(): void {
    this.#messages.push(...this.#responses.toSorted((a, b) => a.call - b.call));
    this.#responses = [];
  }
}

/** The call as the app wrote it, except that blank arguments become `{}`. */
export const callOf = (id: string, name: string, written: string): AppToolCall => ({
  id,
  name,
  arguments: written.trim() === "" ? "{}" : written,
});

/** The part of a call's id that names its turn; the whole id, if the gateway did not assign it. */
const turnOf = (call: AppToolCall | undefined) => (call ? (OWN_ID.exec(call.id)?.[1] ?? call.id) : undefined);
