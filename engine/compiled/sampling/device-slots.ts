/**
 * @file Slots of a cache on the device: what is moved between two runs is an order, in which the next run reads. Nothing is parked: who must leave a slot
 * is computed anew, which a device does sooner than it sends.
 */
export class DeviceSlotOrder {
  readonly slots: number;
  /** Per slot: where what it holds lies. */
  #order: Int32Array;

  constructor(slots: number) {
    this.slots = slots;
    this.#order = this.#identity();
  }

  /** For the run that puts every slot in its place. */
  takeOrder(): Int32Array {
    const order = this.#order;
    this.#order = this.#identity();
    return order;
  }

  /** Gives a slot what another holds up to `end`: before `begin` they hold the same, and after `end` nobody looks. */
  copy(from: number, to: number): void {
    this.move(from, to);
  }

  move(from: number, to: number): void {
    this.#order[to] = this.#order[from] as number;
  }

  swap(a: number, b: number): void {
    const [ofA, ofB] = [this.#order[a] as number, this.#order[b] as number];
    this.#order[a] = ofB;
    this.#order[b] = ofA;
  }

  park(): undefined {
    return undefined;
  }

  restore(): never {
    throw new Error("nothing was parked");
  }

  #identity(): Int32Array {
    return Int32Array.from({ length: this.slots }, (_, slot) => slot);
  }
}
