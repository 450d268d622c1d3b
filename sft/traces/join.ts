/**
 * @file Joins the LLM calls of one conversation: each repeats the history, so the longest contains the others. Conversations that differ in a
 * message are separate branches and stay separate.
 */
import { createHash } from "node:crypto";
import { canonicalJson } from "../../core/contracts/parse.ts";
import { exactJsonIn } from "./json.ts";
import type { Message } from "./message.ts";

interface Joinable {
  readonly agent: string | undefined;
  readonly messages: readonly Message[];
}

export interface Joined<T> {
  readonly longest: T;
  /** Copies of it and of its prefixes; longer ones first. */
  readonly contained: readonly T[];
}

/** In the input order of `longest`. A prefix that several branches share is in `contained` of each. */
export function joinConversations<T extends Joinable>(all: readonly T[]): Joined<T>[] {
  const owners = new Map<string, T[]>();
  const contained = new Map<T, T[]>();
  for (const one of all.toSorted((a, b) => b.messages.length - a.messages.length)) {
    const keys = prefixKeys(one);
    const longer = owners.get(keys.at(-1) ?? "");
    if (longer) {
      for (const owner of longer) contained.get(owner)?.push(one);
      continue;
    }
    contained.set(one, []);
    for (const key of keys) {
      const sharing = owners.get(key);
      if (sharing) sharing.push(one);
      else owners.set(key, [one]);
    }
  }
  return all.flatMap((longest) => {
    const inside = contained.get(longest);
    return inside ? [{ longest, contained: inside }] : [];
  });
}

/** A hash for every prefix of a conversation. */
function prefixKeys({ agent, messages }: Joinable): string[] {
  let key = JSON.stringify(agent ?? null);
  return messages.map((message) => {
    key = createHash("sha256")
      .update(`${key}\n${messageKey(message)}`)
      .digest("base64");
    return key;
  });
}

/**
 * Without thinking, which histories omit, and without what conventions write differently: ids, space around an assistant's text, and the spacing
 * and key order of arguments.
 */
function messageKey(message: Message): string {
  const { role, text } = message;
  if (role !== "assistant") return JSON.stringify([role, text]);
  const calls = message.calls.map(({ name, arguments: args }) => [name, canonicalJson(exactJsonIn(args) ?? args)]);
  return JSON.stringify([role, text.trim(), calls]);
}

/** The longest conversation, with the thinking that only its prefixes recorded: they end with the message that has it. */
export function withThinking({ longest, contained }: Joined<Joinable>): Message[] {
  const thoughts = new Map<number, string>();
  for (const { messages } of contained) {
    const last = messages.at(-1);
    if (last?.role === "assistant" && last.thinking !== "") thoughts.set(messages.length - 1, last.thinking);
  }
  return longest.messages.map((message, i) => {
    if (message.role !== "assistant" || message.thinking !== "") return message;
    return { ...message, thinking: thoughts.get(i) ?? "" };
  });
}
