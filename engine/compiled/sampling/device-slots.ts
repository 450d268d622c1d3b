/**
 * @file Slots of a KV cache on the device. Copying or swapping slots only changes which slot of the
 * arrays each reads, which the next successful run applies.
 * Nothing is parked: on a device, recomputing a sequence is cheaper than copying its cache to the host.
 */
import type { SlotStorage } from "./slot-decoder.ts";

export class DeviceSlotOrder implements SlotStorage {
  readonly slots: number;
  #order: Int32Array;

  constructor(slots: number) {
    this.slots = slots;
    this.#order = this.#identity();
  }

  /** For each slot, the slot of the device's arrays that holds its contents. */
  get order(): Int32Array {
    return this.#order;
  }

  /** Call it after each successful run, whose outputs have this order. A failed run leaves the arrays, and so the order, as they were. */
  resetOrder(): void {
    this.#order = this.#identity();
  }

  /** Copies the whole slot: before `begin` the two are already equal, and positions from `end` on are masked. */
  copy(from: number, to: number): void {
    this.copyAll(from, to);
  }

  copyAll(from: number, to: number): void {
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
