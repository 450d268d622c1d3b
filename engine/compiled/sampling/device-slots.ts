/**
 * @file Slots of a KV cache on the device. Moving slots between two runs only changes their order, which the next run applies. Nothing is
 * parked: on a device, recomputing a sequence is cheaper than copying its cache to the host.
 */
import type { SlotStorage } from "./slot-decoder.ts";

export class DeviceSlotOrder implements SlotStorage {
  readonly slots: number;
  /** For each slot, the slot of the device's arrays that holds its contents. */
  #order: Int32Array;

  constructor(slots: number) {
    this.slots = slots;
    this.#order = this.#identity();
  }

  /** Returns the order for the next run, which writes every slot back in place, and resets it. */
  takeOrder(): Int32Array {
    const order = this.#order;
    this.#order = this.#identity();
    return order;
  }

  /** Copies the whole slot: before `begin` the two are already equal, and positions from `end` on are masked. */
  copy(from: number, to: number): void {
    this.move(from, to);
  }

  move(from: number, to: number): void {
    this.#order[to] = this.#order[from] as number;
  }

  swap(a: number, b: number): void {
    const [first, second] = [this.#order[a] as number, this.#order[b] as number];
    this.#order[a] = second;
    this.#order[b] = first;
  }

  park(): undefined {
    return undefined;
  }

  restore(): never {
    throw new Error("a device cache cannot restore a parked sequence");
  }

  #identity(): Int32Array {
    return Int32Array.from({ length: this.slots }, (_, slot) => slot);
  }
}
