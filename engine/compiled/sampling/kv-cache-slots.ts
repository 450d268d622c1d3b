/**
 * @file Which conversation lives in which slot. A conversation's cache stays between its turns, and after its end until the slot is needed,
 * since others may begin alike (prefill.ts). When slots run out, the one unused for longest is parked. Those that are decoded
 * are kept in the lowest slots, so that a decode reads no other.
 */
import type { ParkedKv } from "./kv-cache.ts";
import { EMPTY_STATE } from "./prefix-states.ts";

export interface Resident {
  readonly sequence: string;
  /** Tokens whose keys and values the cache holds. */
  tokens: number[];
  /** Entry i names the cache as it was when it held i + 1 of them (states.ts); EMPTY in the middle of a piece. */
  states: number[];
  slot: number | undefined;
  parked: ParkedKv | undefined;
  /** A request is being served: it cannot be parked. */
  active: boolean;
  /** Nobody will ask for it again. */
  released: boolean;
  lastUse: number;
}

export type SlotEntry = Resident & { slot: number };

/** The conversation starts anew. */
export function forget(resident: Resident): void {
  resident.tokens = [];
  resident.states = [];
}

export const stateOf = ({ states }: Resident): number => states.at(-1) ?? EMPTY_STATE;

/** The cache holds these tokens now, and has this name. */
export function hold(resident: Resident, tokens: readonly number[], state: number): void {
  for (const token of tokens) {
    resident.tokens.push(token);
    resident.states.push(EMPTY_STATE);
  }
  resident.states[resident.states.length - 1] = state;
}

/** Whose cache, as it was when it held so many tokens, had this name. */
export function withState(among: readonly SlotEntry[], state: number, tokens: number): SlotEntry | undefined {
  return among.find(({ states }) => states[tokens - 1] === state);
}

/** What holds the slots. */
export interface Slots {
  move(from: number, to: number): void;
  swap(a: number, b: number): void;
  /** Undefined: it is not kept. */
  park(slot: number, tokens: number): ParkedKv | undefined;
  restore(slot: number, parked: ParkedKv): void;
}

export class KvCacheSlots {
  readonly #cache: Slots;
  readonly #slots: (SlotEntry | undefined)[];
  readonly #bySequence = new Map<string, Resident>();
  #uses = 0;

  constructor(cache: Slots, slots: number) {
    this.#cache = cache;
    this.#slots = Array.from({ length: slots });
  }

  /** Everyone with a slot. */
  get placed(): readonly SlotEntry[] {
    return this.#slots.filter((resident) => resident !== undefined);
  }

  isActive(sequence: string): boolean {
    return this.#bySequence.get(sequence)?.active ?? false;
  }

  /** Gives the conversation a slot, its cache restored; undefined when every slot is busy. */
  activate(sequence: string): SlotEntry | undefined {
    const resident = this.#bySequence.get(sequence) ?? {
      sequence,
      tokens: [],
      states: [],
      slot: undefined,
      parked: undefined,
      active: false,
      released: false,
      lastUse: 0,
    };
    if (resident.slot === undefined) {
      const slot = this.#freeSlot();
      if (slot === undefined) return undefined;
      this.#put(resident, slot);
      if (resident.parked) this.#cache.restore(slot, resident.parked);
      resident.parked = undefined;
    }
    this.#bySequence.set(sequence, resident);
    resident.active = true;
    resident.lastUse = this.#uses++;
    return resident as SlotEntry;
  }

  release(sequence: string): void {
    const resident = this.#bySequence.get(sequence);
    if (resident) resident.released = true;
    this.#bySequence.delete(sequence);
  }

  /** Moves these into the lowest slots; those who sit there trade places with them. Returns their number. */
  compact(speakers: readonly SlotEntry[]): number {
    const moving = speakers.filter(({ slot }) => slot >= speakers.length);
    const holes = this.#slots.slice(0, speakers.length).flatMap((resident, slot) => {
      return resident && speakers.includes(resident) ? [] : [slot];
    });
    moving.forEach((resident, i) => {
      this.#trade(resident, holes[i] as number);
    });
    return speakers.length;
  }

  #trade(resident: SlotEntry, slot: number): void {
    const other = this.#slots[slot];
    const left = resident.slot;
    if (other && !other.released) {
      this.#cache.swap(left, slot);
      this.#put(other, left);
    } else {
      this.#cache.move(left, slot);
      this.#slots[left] = undefined;
    }
    this.#put(resident, slot);
  }

  #put(resident: Resident, slot: number): void {
    resident.slot = slot;
    this.#slots[slot] = resident as SlotEntry;
  }

  #freeSlot(): number | undefined {
    const free = this.#slots.indexOf(undefined);
    if (free >= 0) return free;
    const idle = this.placed.filter(({ active }) => !active);
    const [oldest] = idle.sort((a, b) => Number(b.released) - Number(a.released) || a.lastUse - b.lastUse);
    if (!oldest) return undefined;
    const { slot } = oldest;
    if (!oldest.released) {
      (oldest as Resident).parked = this.#cache.park(slot, oldest.tokens.length);
      if (!oldest.parked) forget(oldest);
    }
    (oldest as Resident).slot = undefined;
    return slot;
  }
}
