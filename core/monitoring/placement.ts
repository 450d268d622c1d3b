/**
 * @file Places the responses of a turn under its calls, and the conversations of sub-agents under the main agent's turns. A delegation names
 * its invocation. An app's record does not say which turn led to a conversation, so each is placed by its task.
 *
 *     a call whose argument is the task · then one whose argument is part of the task, or contains it · then a turn whose text contains the task
 *
 * Of several such calls, the first without a conversation, else the first. A conversation that no turn explains has no place.
 */
import type { Turn } from "../contracts/conversation.ts";
import type { Invocation } from "../contracts/rollout.ts";

export interface InvocationPlacement {
  /** Ids, by turn and call (`callKey`). */
  readonly ofCall: ReadonlyMap<string, readonly string[]>;
  /** By turn: the ids of those that its text led to. */
  readonly ofTurn: ReadonlyMap<number, readonly string[]>;
  /** Ids of those that no turn explains. */
  readonly left: readonly string[];
}

/** The key of a call in `ofCall`. */
export const callKey = (turn: number, call: number): string => `${turn}/${call}`;

/** Shorter texts match by chance. */
const MIN_PART = 8;

interface Place {
  readonly turn: number;
  /** Undefined: the turn's text. */
  readonly call: number | undefined;
}

export function placeInvocations(
  turns: readonly Turn[],
  invocations: ReadonlyMap<string, Pick<Invocation, "conversation">>,
): InvocationPlacement {
  const [ofCall, ofTurn] = [new Map<string, string[]>(), new Map<number, string[]>()];
  const left: string[] = [];
  const named = new Set(turns.flatMap(({ responses }) => responses.flatMap(({ invocation }) => invocation ?? [])));
  for (const [id, { conversation }] of invocations) {
    if (named.has(id)) continue;
    const place = placeOf(conversation.prompt.trim(), turns, (key) => ofCall.has(key));
    if (!place) {
      left.push(id);
      continue;
    }
    if (place.call === undefined) append(ofTurn, place.turn, id);
    else append(ofCall, callKey(place.turn, place.call), id);
  }
  return { ofCall, ofTurn, left };
}

function placeOf(task: string, turns: readonly Turn[], isTaken: (key: string) => boolean): Place | undefined {
  if (task === "") return undefined;
  const calls = turns.flatMap(({ calls }, turn) =>
    calls.map((call, index) => ({ turn, call: index, texts: textsIn(call.arguments).map((text) => text.trim()) })),
  );
  const same = calls.filter(({ texts }) => texts.includes(task));
  const similar = calls.filter(({ texts }) => texts.some((text) => isPart(text, task) || isPart(task, text)));
  const free = (one: (typeof calls)[number]) => !isTaken(callKey(one.turn, one.call));
  const found = same.find(free) ?? same[0] ?? similar.find(free) ?? similar[0];
  if (found) return found;
  const turn = turns.findIndex(({ text }) => text.includes(task));
  return turn < 0 ? undefined : { turn, call: undefined };
}

const isPart = (part: string, whole: string): boolean => part.length >= MIN_PART && whole.includes(part);

/** All strings of a call's arguments. */
function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (value === null || typeof value !== "object") return [];
  return Object.values(value).flatMap(textsIn);
}

function append<K>(map: Map<K, string[]>, key: K, id: string): void {
  map.set(key, [...(map.get(key) ?? []), id]);
}

/** The response to each call, and any other responses of an app before the next turn. */
export function responsesOf({ calls, responses }: Turn) {
  let next = 0;
  const byCall = calls.map(({ name }) => (responses[next]?.name === name ? responses[next++] : undefined));
  return { byCall, rest: responses.slice(next) };
}
