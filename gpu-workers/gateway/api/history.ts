/** @file The conversation in a request, built message by message. Responses to calls are put in the order of the calls. */
import type { AppMessage, AppToolCall } from "../../../core/contracts/app-chat.ts";
import { invalid } from "./errors.ts";

type CallResponse = Extract<AppMessage, { role: "tool" }>;

/** Ids of calls that the gateway assigned: those of one turn differ only in the last number. */
const OWN_ID = /^(call_[0-9a-f]{20})_\d+$/;

export class History {
  readonly #messages: AppMessage[];
  /** Calls of the last assistant message. */
  #calls: readonly AppToolCall[];
  #responses: CallResponse[] = [];

  /** @param before messages that the request does not repeat. */
  constructor(before: readonly AppMessage[] = []) {
    this.#messages = [...before];
    const last = before.findLast((message) => message.role === "assistant");
    this.#calls = last?.calls ?? [];
  }

  add(role: "system" | "user", text: string): void {
    this.#flush();
    this.#messages.push({ role, text });
  }

  assistant(text: string, calls: readonly AppToolCall[]): void {
    this.#flush();
    this.#calls = calls;
    this.#messages.push({ role: "assistant", text, calls: [...calls] });
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
    } else if (!last.calls.some(({ id }) => id === call.id)) {
      this.#calls = [...last.calls, call];
      this.#messages[this.#messages.length - 1] = { ...last, calls: [...this.#calls] };
    }
  }

  /** @param where the parameter that names the call. */
  respond(id: string, text: string, where: string): void {
    const call = this.#calls.findIndex((one) => one.id === id);
    if (call < 0) throw invalid(where, `the preceding assistant message has no call '${id}'`);
    this.#responses.push({ role: "tool", call, text });
  }

  messages(): AppMessage[] {
    this.#flush();
    return [...this.#messages];
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
