/**
 * @file Which conversation lives in which slot. A conversation's cache stays between its turns; when slots run out, the one unused for
 * longest is parked. The lowest free slot is taken, so that active slots lie close together.
 */
import type { Cache, Parked } from "./cache.ts";

export interface Resident {
  readonly sequence: string;
  /** Tokens whose keys and values the cache holds. */
  tokens: number[];
  slot: number | undefined;
  parked: Parked | undefined;
  /** A request is being served: it cannot be parked. */
  active: boolean;
  lastUse: number;
}

export class Residents {
  readonly #cache: Cache;
  readonly #slots: (Resident | undefined)[];
  readonly #bySequence = new Map<string, Resident>();
  #uses = 0;

  constructor(cache: Cache, slots: number) {
    this.#cache = cache;
    this.#slots = Array.from({ length: slots });
  }

  isActive(sequence: string): boolean {
    return this.#bySequence.get(sequence)?.active ?? false;
  }

  /** Gives the conversation a slot, its cache restored; undefined when every slot is busy. */
  activate(sequence: string): (Resident & { slot: number }) | undefined {
    const resident = this.#bySequence.get(sequence) ?? {
      sequence,
      tokens: [],
      slot: undefined,
      parked: undefined,
      active: false,
      lastUse: 0,
    };
    if (resident.slot === undefined) {
      const slot = this.#freeSlot();
      if (slot === undefined) return undefined;
      resident.slot = slot;
      this.#slots[slot] = resident;
      if (resident.parked) this.#cache.restore(slot, resident.parked);
      resident.parked = undefined;
    }
    this.#bySequence.set(sequence, resident);
    resident.active = true;
    resident.lastUse = this.#uses++;
    return resident as Resident & { slot: number };
  }

  release(sequence: string): void {
    const resident = this.#bySequence.get(sequence);
    if (resident?.slot !== undefined) this.#slots[resident.slot] = undefined;
    this.#bySequence.delete(sequence);
  }

  #freeSlot(): number | undefined {
    const free = this.#slots.indexOf(undefined);
    if (free >= 0) return free;
    const idle = this.#slots.filter((resident) => resident !== undefined && !resident.active) as Resident[];
    const [oldest] = idle.sort((a, b) => a.lastUse - b.lastUse);
    if (oldest?.slot === undefined) return undefined;
    const { slot } = oldest;
    oldest.parked = this.#cache.park(slot, oldest.tokens.length);
    oldest.slot = undefined;
    this.#slots[slot] = undefined;
    return slot;
  }
}
