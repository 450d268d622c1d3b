/**
 * @file Sums in a record that many processes add to, such as requests and what they cost. Each payment is counted once, however often it is
 * sent: the SDK and the retrying store send it again when its response is lost. So each payer has a number, and numbers its payments:
 *
 *     register   payers 7 -> 8, payments.8 = 0
 *     add        if payments.8 is 0: payments.8 = 1, and the sums are added
 *     repeat     payments.8 is 1: nothing changes, and the payer reads there that its payment is counted
 *     next add   if payments.8 is 1: …                 sent only after the response to the payment before
 *
 * A payment that ends in an error may have been counted, or be counted later. Its payer registers again, so that it never mistakes that
 * payment for its next one. Registering twice only skips a number.
 *
 * Processes that die stay registered, so the record keeps only the latest `PAYERS_KEPT` payers. A payer that finds itself forgotten registers
 * again and repeats its payment, unless the payment lowers a sum. So forgetting a payer can make sums too high, never too low, as long as no
 * payment raises one sum and lowers another.
 */
import type { TableKey } from "../contracts/keys.ts";
import { parse } from "../contracts/parse.ts";
import { RegisteredPayers } from "../contracts/spending.ts";
import type { Table, TableItem } from "../ports.ts";

/** Each takes about 10 bytes, and every payment writes the whole record. */
export const PAYERS_KEPT = 200;
/** Maximum number of payers that one write removes. */
const FORGOTTEN_AT_ONCE = 100;

interface Payer {
  readonly number: number;
  /** How many of its payments are counted. */
  readonly counted: number;
}

/** What one payer adds: attribute -> sum. */
type Sums = Readonly<Record<string, number>>;

/** The payments of one payer to a record. */
export class NumberedPayments {
  readonly #table: Pick<Table, "insert" | "update">;
  readonly #key: TableKey;
  readonly #empty: TableItem;
  #last: Promise<unknown> = Promise.resolve();
  /** Undefined before the first payment, while one is under way, and after one that failed or found its payer forgotten. */
  #payer: Payer | undefined;

  /** @param empty the record that the first payer inserts if there is none. */
  constructor(table: Pick<Table, "insert" | "update">, key: TableKey, empty: TableItem) {
    this.#table = table;
    this.#key = key;
    this.#empty = empty;
  }

  /**
   * Returns the record after the payment. If its payer was forgotten, a payment that lowers a sum is not sent again: the record may lack it.
   * Calls may overlap: if a payment fails, those that wait for it fail too, without being sent.
   */
  add(sums: Sums): Promise<TableItem> {
    const added = this.#last.then(() => this.#send(sums));
    this.#last = added;
    added.catch(() => {
      if (this.#last === added) this.#last = Promise.resolve();
    });
    return added;
  }

  async #send(sums: Sums): Promise<TableItem> {
    const { number, counted } = this.#payer ?? (await this.#register());
    this.#payer = undefined;
    const path = ["payments", String(number)];
    const { item = {} } = await this.#table.update({
      key: this.#key,
      set: [[path, counted + 1]],
      add: Object.entries(sums).map(([attribute, sum]) => [[attribute], sum]),
      when: [{ equals: [path, counted] }],
    });
    if (this.#read(item).payments[number] === counted + 1) {
      this.#payer = { number, counted: counted + 1 };
      return item;
    }
    const lowers = Object.values(sums).some((sum) => sum < 0);
    return lowers ? item : this.#send(sums);
  }

  async #register(): Promise<Payer> {
    const key = this.#key;
    await this.#table.insert(key, this.#empty);
    await this.#table.update({ key, set: [[["payments"], {}]], when: [{ absent: ["payments"] }] });
    const { item } = await this.#table.update({ key, add: [[["payers"], 1]], when: [] });
    const { payers: number, payments } = this.#read(item);
    const forgotten = Object.keys(payments).filter((other) => Number(other) <= number - PAYERS_KEPT);
    const path = ["payments", String(number)];
    await this.#table.update({
      key,
      set: [[path, 0]],
      remove: forgotten.slice(0, FORGOTTEN_AT_ONCE).map((other) => ["payments", other]),
      when: [{ absent: path }],
    });
    return { number, counted: 0 };
  }

  #read(item: TableItem | undefined): RegisteredPayers {
    return parse(RegisteredPayers, item, `payers of ${this.#key.pk} ${this.#key.sk}`);
  }
}
