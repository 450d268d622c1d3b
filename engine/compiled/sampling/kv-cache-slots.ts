/**
 * @file Assigns KV-cache slots to sequences. A sequence stays in a slot between turns, and after its release until another sequence needs
 * the slot, since later sequences may share its prefix (prefill.ts). If no slot is free or holds a released sequence, the least recently
 * used idle sequence is evicted: its cache is parked if the storage can park, and dropped otherwise.
 * Decoding sequences are kept in the lowest slots, so that a decoding step runs on as few rows as possible.
 */
import { EMPTY_STATE } from "./prefix-states.ts";
import type { ParkedKv, SlotStorage } from "./slot-decoder.ts";

/** The tokens of a sequence that are in the KV cache. */
export interface CachedTokens {
  tokens: number[];
  /** Entry i: the prefix state after i + 1 tokens; EMPTY_STATE inside a chunk. */
  states: number[];
}

/** A sequence in a slot. */
export interface SlotEntry extends CachedTokens {
  readonly sequence: string;
  slot: number;
  /** Is serving a request, so it cannot be evicted. */
  isActive: boolean;
  /** No further request will come. */
  isReleased: boolean;
  lastUse: number;
}

/** A sequence whose cache was copied out of its slot, so that it can return. */
interface ParkedSequence extends CachedTokens {
  readonly kv: ParkedKv;
}

/** Truncates the cache to the prefix that it shares with `tokens`, cut at a chunk boundary. */
export function keepCommonPrefix(cached: CachedTokens, tokens: readonly number[]): void {
  const firstDifference = cached.tokens.findIndex((token, i) => token !== tokens[i]);
  if (firstDifference >= 0) truncate(cached, firstDifference);
}

/** Keeps at most `length` tokens, in whole chunks. */
function truncate(cached: CachedTokens, length: number): void {
  let kept = length;
  while (kept > 0 && cached.states[kept - 1] === EMPTY_STATE) kept -= 1;
  cached.tokens = cached.tokens.slice(0, kept);
  cached.states = cached.states.slice(0, kept);
}

export const prefixStateOf = ({ states }: CachedTokens): number => states.at(-1) ?? EMPTY_STATE;

/** Records that these tokens were appended to the cache, which is now in this state. */
export function appendTokens(cached: CachedTokens, tokens: readonly number[], state: number): void {
  for (const token of tokens) {
    cached.tokens.push(token);
    cached.states.push(EMPTY_STATE);
  }
  cached.states[cached.states.length - 1] = state;
}

/** An entry whose first `length` tokens are in this prefix state. */
export function entryWithPrefix(entries: readonly SlotEntry[], state: number, length: number): SlotEntry | undefined {
  return entries.find(({ states }) => states[length - 1] === state);
}

export class KvCacheSlots {
  readonly #storage: SlotStorage;
  readonly #slots: (SlotEntry | undefined)[];
  /**
   * Sequences that are not released, by name: each is in a slot, parked, or, where the storage cannot park, no longer cached; never in two
   * of these.
   */
  readonly #inSlot = new Map<string, SlotEntry>();
  readonly #parked = new Map<string, ParkedSequence>();
  #uses = 0;

  constructor(storage: SlotStorage, slots: number) {
    this.#storage = storage;
    this.#slots = Array.from({ length: slots });
  }

  /** Every sequence in a slot, released ones included. */
  get entries(): readonly SlotEntry[] {
    return this.#slots.filter((entry) => entry !== undefined);
  }

  isActive(sequence: string): boolean {
    return this.#inSlot.get(sequence)?.isActive ?? false;
  }

  isKnown(sequence: string): boolean {
    return this.#inSlot.has(sequence) || this.#parked.has(sequence);
  }

  /** Assigns the sequence a slot and restores its parked cache, if any; undefined if every slot is active. */
  activate(sequence: string): SlotEntry | undefined {
    const entry = this.#inSlot.get(sequence) ?? this.#assignSlot(sequence);
    if (!entry) return undefined;
    entry.isActive = true;
    entry.lastUse = this.#uses++;
    return entry;
  }

  /**
   * Copies at most `sharedTokens` tokens of another sequence, up to a chunk boundary, into an empty entry. Does nothing if that sequence has
   * been released or is no longer cached.
   */
  branch(entry: SlotEntry, { sequence, sharedTokens: length }: { sequence: string; sharedTokens: number }): void {
    const source = this.#inSlot.get(sequence);
    const parked = this.#parked.get(sequence);
    // Restored first: if memory does not suffice, the entry stays empty.
    if (parked) this.#storage.restore(entry.slot, parked.kv);
    const { tokens, states } = source ?? parked ?? entry;
    Object.assign(entry, { tokens, states });
    truncate(entry, length);
    if (source) this.#storage.copy(source.slot, entry.slot, 0, entry.tokens.length);
  }

  release(sequence: string): void {
    const entry = this.#inSlot.get(sequence);
    if (entry) entry.isReleased = true;
    this.#inSlot.delete(sequence);
    this.#parked.delete(sequence);
  }

  /** Moves the decoding entries into the lowest slots. An unreleased entry there swaps places; a released one is dropped. */
  compact(decoding: readonly SlotEntry[]): void {
    const count = decoding.length;
    const targets = this.#slots.slice(0, count).flatMap((entry, slot) => {
      return entry && decoding.includes(entry) ? [] : [slot];
    });
    const moving = decoding.filter(({ slot }) => slot >= count);
    for (const [i, slot] of targets.entries()) {
      const entry = moving[i];
      if (entry) this.#moveTo(entry, slot);
    }
  }

  #moveTo(entry: SlotEntry, slot: number): void {
    const previous = entry.slot;
    const other = this.#slots[slot];
    if (other && !other.isReleased) {
      this.#storage.swap(previous, slot);
      this.#put(other, previous);
    } else {
      this.#storage.copyAll(previous, slot);
      this.#slots[previous] = undefined;
    }
    this.#put(entry, slot);
  }

  #put(entry: SlotEntry, slot: number): void {
    entry.slot = slot;
    this.#slots[slot] = entry;
  }

  #assignSlot(sequence: string): SlotEntry | undefined {
    const slot = this.#freeSlot();
    if (slot === undefined) return undefined;
    const parked = this.#parked.get(sequence);
    // Restored first: if memory does not suffice, the sequence stays parked and takes no slot.
    if (parked) this.#storage.restore(slot, parked.kv);
    const { tokens, states } = parked ?? { tokens: [], states: [] };
    const entry = { sequence, tokens, states, slot, isActive: true, isReleased: false, lastUse: 0 };
    this.#slots[slot] = entry;
    this.#inSlot.set(sequence, entry);
    this.#parked.delete(sequence);
    return entry;
  }

  #freeSlot(): number | undefined {
    const free = this.#slots.indexOf(undefined);
    if (free >= 0) return free;
    const idle = this.entries.filter(({ isActive }) => !isActive);
    const [oldest] = idle.sort((a, b) => Number(b.isReleased) - Number(a.isReleased) || a.lastUse - b.lastUse);
    if (oldest && !oldest.isReleased) this.#park(oldest);
    return oldest?.slot;
  }

  #park({ sequence, tokens, states, slot }: SlotEntry): void {
    const kv = this.#storage.park(slot, tokens.length);
    this.#slots[slot] = undefined;
    this.#inSlot.delete(sequence);
    if (kv) this.#parked.set(sequence, { tokens, states, kv });
  }
}
