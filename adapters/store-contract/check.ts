/**
 * @file What the program relies on a store for, one sentence and one trial each. `mgrpo cloud check` tries them on the endpoints of the
 * environment, and the contract suites in test/contracts on every adapter: one list for both.
 */
import type { TableKey } from "../../core/contracts/keys.ts";

/** Of a port: objects, a table, a clock. */
export interface ContractCheck<Port> {
  /** What the store does. */
  readonly name: string;
  /** Throws when it does not. */
  verify(port: Port, place: FreshKeys): Promise<void>;
}

/** Keys that nobody else uses, each a new one. */
export interface FreshKeys {
  objectKey(name?: string): string;
  tableKey(): TableKey;
}

/** All of them begin with the prefix. */
export function openFreshKeys(prefix: string): FreshKeys {
  let made = 0;
  return {
    objectKey: (name = "x.json") => `${prefix}/${++made}/${name}`,
    tableKey: () => ({ pk: `${prefix}#${++made}`, sk: "TRIAL" }),
  };
}
