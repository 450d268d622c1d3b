/** @file The expert's score (eq 5) in recipes on atlas's worlds: the weights of its parts, and what it reads in a conversation. */
import type { Conversation } from "../../core/contracts/conversation.ts";

/** Each in [0, 1]. */
export interface ExpertParts {
  /** The best search. */
  readonly searched: number;
  /** The best page that was opened. */
  readonly visited: number;
  /** The report. */
  readonly reported: number;
}

export const expertScore = ({ searched, visited, reported }: ExpertParts): number =>
  0.2 * searched + 0.3 * visited + 0.5 * reported;

/** The responses to visits, in order. */
export function visitedPages(conversation: Conversation): string[] {
  return conversation.turns.flatMap(({ calls, responses }) =>
    responses.flatMap(({ name, text }, i) => (name === "visit" && calls[i]?.name === name ? [text] : [])),
  );
}

export function searchQueries(conversation: Conversation): string[] {
  const calls = conversation.turns.flatMap((turn) => turn.calls);
  return calls.flatMap((call) => (call.name === "search" ? [String(call.arguments["query"] ?? "")] : []));
}

/** 0 if there are no items. */
export function shareOf<T>(items: readonly T[], holds: (item: T) => boolean): number {
  return items.length === 0 ? 0 : items.filter(holds).length / items.length;
}
