/** @file Types of the dynalite modules that are imported by name; the package has none. table-database.ts loads those of single operations untyped. */
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
  /** A copy of the input with its values converted. Deletes nulls and unknown parameters from the input itself too. Throws an API error. */
  export function checkTypes(input: object, types: object): object;
  /** Throws an API error. */
  export function checkValidations(input: object, types: object, custom: unknown, store: TableStore): void;
}
