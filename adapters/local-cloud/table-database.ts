/**
 * @file The operations of the DynamoDB API on a LevelDB directory, through dynalite's internal modules. dynalite's HTTP server is not used: it
 * throws every error of LevelDB from a callback, which would end this process. Internal modules may change in any release, so dynalite's
 * version is pinned.
 */
import { createRequire } from "node:module";
import { create } from "dynalite/db/index.js";
import { checkTypes, checkValidations } from "dynalite/validations/index.js";
import { adaptLevelDb } from "./leveldb.ts";
import { storageFault } from "./storage-faults.ts";

export type JsonBody = Readonly<Record<string, unknown>>;

/** An error that the API returns, in dynalite's shape. */
export interface DynamoApiError extends Error {
  readonly statusCode: number;
  readonly body: { readonly __type: string; readonly message?: string; readonly Message?: string };
}

export interface TableDatabase {
  /** Rejects with a DynamoApiError, or with a storage fault. */
  call(operation: string, input: JsonBody): Promise<JsonBody>;
  close(): Promise<void>;
}

const OPERATIONS = [
  "BatchGetItem",
  "BatchWriteItem",
  "CreateTable",
  "DeleteItem",
  "DeleteTable",
  "DescribeTable",
  "DescribeTimeToLive",
  "GetItem",
  "ListTables",
  "ListTagsOfResource",
  "PutItem",
  "Query",
  "Scan",
  "TagResource",
  "UntagResource",
  "UpdateItem",
  "UpdateTable",
];

interface Operation {
  run(store: ReturnType<typeof create>, input: object, done: (error: unknown, output: JsonBody) => void): void;
  readonly types: object;
  readonly custom?: unknown;
}

export const isApiError = (error: unknown): error is DynamoApiError =>
  error instanceof Error && "statusCode" in error && "body" in error;

/** `type`: the API's `<namespace>#<name>`. */
export const apiError = (statusCode: number, type: string, message?: string): DynamoApiError =>
  Object.assign(new Error(message ?? type), {
    statusCode,
    body: { __type: type, ...(message !== undefined && { message }) },
  });

export async function openTableDatabase(directory: string): Promise<TableDatabase> {
  adaptLevelDb();
  const operations = new Map(OPERATIONS.map((name) => [name, loadOperation(name)]));
  const store = create({ path: directory, createTableMs: 0 });
  await store.db.open().catch((error: unknown) => {
    throw storageFault(directory, error);
  });
  return {
    async call(name, input) {
      const operation = operations.get(name);
      if (!operation) throw apiError(400, "com.amazon.coral.service#UnknownOperationException");
      const checked = checkTypes(input, operation.types);
      checkValidations(checked, operation.types, operation.custom, store);
      return new Promise((resolve, reject) => {
        operation.run(store, checked, (error, output) => {
          if (error) reject(isApiError(error) ? error : storageFault(directory, error));
          else resolve(output);
        });
      });
    },
    close: () => store.db.close(),
  };
}

function loadOperation(name: string): Operation {
  const require = createRequire(import.meta.url);
  const file = `${name[0]?.toLowerCase()}${name.slice(1)}.js`;
  const { types, custom } = require(`dynalite/validations/${file}`);
  return { types, custom, run: require(`dynalite/actions/${file}`) };
}
