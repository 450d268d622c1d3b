/**
 * @file DynamoDB in memory, which meters requests as AWS bills them. It passes the contract suite of tables
 * (test/contracts/simulated-cloud.test.ts).
 */
import type { BatchGetItemCommandInput, QueryCommandInput } from "@aws-sdk/client-dynamodb";
import { unmarshall } from "@aws-sdk/util-dynamodb";
import { itemBytes } from "../../../adapters/aws/item-bytes.ts";
import { BATCH_READ_KEYS, expressionFault, isStorable, PAGE_BYTES } from "../../../adapters/aws/limits.ts";
import type { DynamoApi } from "../../../adapters/aws/table.ts";
import { ITEM_BYTES } from "../../../core/contracts/bounds.ts";
import { applyUpdate, conditionHolds, type ItemAttributes, validationException } from "./expression.ts";

/**
 * Units as AWS bills them, rounded up: a consistent read consumes 1 per 4 KB, any other half of that; a write 1 per KB of the larger of the old
 * and the new item, even if its condition fails.
 */
export interface TableUse {
  readonly operation: "GetItem" | "BatchGetItem" | "PutItem" | "UpdateItem" | "DeleteItem" | "Query";
  readonly pk: string;
  /** The kind of item: `RUN`, `STEP` and so on; for a query, `STEP*` and so on, or `all*` without a prefix. */
  readonly kind: string;
  readonly readUnits: number;
  readonly writeUnits: number;
  /** Size of the item after a write, of the item that a delete removed, or of what a read found. */
  readonly bytes: number;
  /** False: the condition of a write failed. */
  readonly applied: boolean;
  /** 0 for the items of a batch after the first, else 1. */
  readonly requests: 0 | 1;
}

interface Stored {
  readonly attributes: ItemAttributes;
  readonly bytes: number;
}

const readUnitsOf = (bytes: number, consistent = true) => Math.max(1, Math.ceil(bytes / 4096)) * (consistent ? 1 : 0.5);
const writeUnitsOf = (bytes: number) => Math.max(1, Math.ceil(bytes / 1024));

export interface MemoryTable {
  /**
   * The API for one caller. `used` is called once for each key of a batch and once for every other request, even if its condition fails, but
   * not for requests that are refused as invalid.
   */
  api(used: (use: TableUse) => void): DynamoApi;
  /** Bytes of all items. */
  bytes(): number;
}

export function openMemoryTable(): MemoryTable {
  const items = new Items();
  return {
    bytes: () => items.bytes,
    api(used) {
      const table: MeteredItems = { items, used };
      return {
        getItem: async ({ Key = {}, ConsistentRead = false }) => ({
          Item: read(table, "GetItem", Key, ConsistentRead, 1),
        }),
        batchGetItem: async (input) => readBatch(table, input),
        async putItem(input) {
          const { Item = {} } = input;
          refuseLargeExpressions(input);
          const before = items.find(Item);
          const after = conditionHolds(input, before?.attributes) ? items.store(Item) : undefined;
          return write(table, "PutItem", Item, before, after);
        },
        async updateItem(input) {
          const { Key = {} } = input;
          refuseLargeExpressions(input);
          const before = items.find(Key);
          const after = conditionHolds(input, before?.attributes)
            ? items.store(applyUpdate(input, before?.attributes ?? Key))
            : undefined;
          return { Attributes: write(table, "UpdateItem", Key, before, after) };
        },
        async deleteItem({ Key = {} }) {
          remove(table, Key);
        },
        query: async (input) => query(table, input),
      };
    },
  };
}

function refuseLargeExpressions(input: Parameters<typeof expressionFault>[0]): void {
  const fault = expressionFault(input);
  if (fault !== undefined) throw validationException(fault);
}

function refuseUnstorableNumbers(value: unknown): void {
  if (typeof value === "number" && !isStorable(value)) throw validationException("Number out of range");
  if (typeof value === "object" && value !== null) Object.values(value).forEach(refuseUnstorableNumbers);
}

class Items {
  readonly #partitions = new Map<string, Map<string, Stored>>();
  bytes = 0;

  find({ pk, sk }: ItemAttributes): Stored | undefined {
    return this.#partitions.get(pk?.S ?? "")?.get(sk?.S ?? "");
  }

  /** Ordered by sort key. */
  partition(pk: string): [string, Stored][] {
    return [...(this.#partitions.get(pk) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  store(attributes: ItemAttributes): Stored {
    const item = unmarshall(attributes);
    refuseUnstorableNumbers(item);
    const stored = { attributes, bytes: itemBytes(item) };
    if (stored.bytes > ITEM_BYTES) throw validationException("Item size has exceeded the maximum allowed size");
    const pk = attributes["pk"]?.S ?? "";
    const partition = this.#partitions.get(pk) ?? new Map<string, Stored>();
    this.bytes += stored.bytes - (this.find(attributes)?.bytes ?? 0);
    this.#partitions.set(pk, partition.set(attributes["sk"]?.S ?? "", stored));
    return stored;
  }

  /** Returns the size of the removed item; 0 if there was none. */
  remove(key: ItemAttributes): number {
    const { bytes } = this.find(key) ?? { bytes: 0 };
    this.#partitions.get(key["pk"]?.S ?? "")?.delete(key["sk"]?.S ?? "");
    this.bytes -= bytes;
    return bytes;
  }
}

function remove({ items, used }: MeteredItems, key: ItemAttributes): void {
  const bytes = items.remove(key);
  const writeUnits = writeUnitsOf(bytes);
  used({ operation: "DeleteItem", ...addressOf(key), readUnits: 0, writeUnits, bytes, applied: true, requests: 1 });
}

interface MeteredItems {
  readonly items: Items;
  readonly used: (use: TableUse) => void;
}

type Operation = TableUse["operation"];

function read(
  { items, used }: MeteredItems,
  operation: Operation,
  key: ItemAttributes,
  consistent: boolean,
  requests: 0 | 1,
) {
  const item = items.find(key);
  const bytes = item?.bytes ?? 0;
  const readUnits = readUnitsOf(bytes, consistent);
  used({ operation, ...addressOf(key), readUnits, writeUnits: 0, bytes, applied: true, requests });
  return item?.attributes;
}

/** `after` is undefined if the condition failed. */
function write({ used }: MeteredItems, operation: Operation, key: ItemAttributes, before?: Stored, after?: Stored) {
  const bytes = after?.bytes ?? before?.bytes ?? 0;
  const writeUnits = writeUnitsOf(Math.max(bytes, before?.bytes ?? 0));
  const applied = after !== undefined;
  used({ operation, ...addressOf(key), readUnits: 0, writeUnits, bytes, applied, requests: 1 });
  if (!after) throw Object.assign(new Error("the condition failed"), { name: "ConditionalCheckFailedException" });
  return after.attributes;
}

function readBatch(table: MeteredItems, { RequestItems = {} }: BatchGetItemCommandInput) {
  const keys = Object.values(RequestItems).flatMap(({ Keys = [] }) => Keys);
  if (keys.length > BATCH_READ_KEYS) throw validationException("Too many items requested for the BatchGetItem call");
  const responses = Object.entries(RequestItems).map(([name, { Keys = [], ConsistentRead = false }]) => {
    const items = Keys.map((key, i) => read(table, "BatchGetItem", key, ConsistentRead, i === 0 ? 1 : 0));
    return [name, items.filter((item) => item !== undefined)] as const;
  });
  return { Responses: Object.fromEntries(responses) };
}

function query({ items, used }: MeteredItems, input: QueryCommandInput) {
  const { ExpressionAttributeValues: values = {}, ConsistentRead = false, ExclusiveStartKey: after } = input;
  const [pk = "", prefix = ""] = [values[":pk"]?.S, values[":prefix"]?.S];
  const rows = items
    .partition(pk)
    .filter(([sk]) => sk.startsWith(prefix) && (after === undefined || sk > (after["sk"]?.S ?? "")));
  const page = firstPage(rows);
  const bytes = page.reduce((sum, [, item]) => sum + item.bytes, 0);
  const kind = `${prefix.split("#")[0] || "all"}*`;
  const readUnits = readUnitsOf(bytes, ConsistentRead);
  used({ operation: "Query", pk, kind, readUnits, writeUnits: 0, bytes, applied: true, requests: 1 });
  const last = page.at(-1)?.[0] ?? "";
  return {
    Items: page.map(([, { attributes }]) => attributes),
    ...(page.length < rows.length && { LastEvaluatedKey: { pk: { S: pk }, sk: { S: last } } }),
  };
}

/** Ends with the row that reaches the page size, if any does. */
function firstPage(rows: readonly [string, Stored][]): readonly [string, Stored][] {
  let bytes = 0;
  const end = rows.findIndex(([, item]) => {
    bytes += item.bytes;
    return bytes >= PAGE_BYTES;
  });
  return end < 0 ? rows : rows.slice(0, end + 1);
}

function addressOf({ pk, sk }: ItemAttributes) {
  return { pk: pk?.S ?? "", kind: sk?.S?.split("#")[0] ?? "" };
}
