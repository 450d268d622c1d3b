/**
 * @file How mgrpo states what it requires of a store: one sentence and one check per requirement. The checks are in this folder's other files.
 * `mgrpo cloud check` runs them on the endpoints of the environment, and the contract suites in test/contracts on every adapter.
 */
import type { TableKey } from "../../core/contracts/keys.ts";

/** One check of a port (objects, table or clock). */
export interface ContractCheck<Port> {
  /** What the store does. */
  readonly name: string;
  /** Rejects if the store does not do what `name` says. */
  verify(port: Port, keys: FreshKeys): Promise<void>;
}

/** Returns a new key with every call. */
export interface FreshKeys {
  objectKey(name?: string): string;
  tableKey(): TableKey;
}

/** All keys begin with the prefix. */
export function openFreshKeys(prefix: string): FreshKeys {
  let count = 0;
  return {
    objectKey: (name = "x.json") => `${prefix}/${++count}/${name}`,
    tableKey: () => ({ pk: `${prefix}#${++count}`, sk: "TRIAL" }),
  };
}
