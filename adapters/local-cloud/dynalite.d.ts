/** @file The dynalite modules in use. The package has no types. */
declare module "dynalite/db/index.js" {
  /** A LevelDB database that contains the tables. */
  export interface TableStore {
    readonly db: {
      open(): Promise<void>;
      /** Waits for the operations in progress. */
      close(): Promise<void>;
    };
  }
  export function create(options: { path: string; createTableMs: number }): TableStore;
}
declare module "dynalite/validations/index.js" {
  import type { TableStore } from "dynalite/db/index.js";
  /** A copy of the input with its values converted; throws an API error. */
  export function checkTypes(input: object, types: object): object;
  /** Throws an API error. */
  export function checkValidations(input: object, types: object, custom: unknown, store: TableStore): void;
}
