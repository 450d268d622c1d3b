/** @file DynamoDB in memory, billed as AWS bills it. It passes the contract suite of tables (test/contracts/simulated-cloud.test.ts). */
import { unmarshall } from "@aws-sdk/util-dynamodb";
import { itemBytes } from "../../../adapters/aws/meter.ts";
import type { DynamoApi } from "../../../adapters/aws/table.ts";
import { type Attributes, conditionHolds, invalid, applyUpdate } from "./expression.ts";

/** Units are AWS's: 1 per started 4 KB of a consistent read, 1 per started 1 KB of a write, whose condition may have failed. */
export interface TableUse {
  readonly operation: "GetItem" | "BatchGetItem" | "PutItem" | "UpdateItem" | "Query";
  readonly pk: string;
  /** What was read or written, `RUN`, `STEP` or such; of a query what it asked for. */
  readonly kind: string;
  readonly readUnits: number;
  readonly writeUnits: number;
  /** Of the item as it was left; of what a read found. */
  readonly bytes: number;
  /** False: a write whose condition failed. */
  readonly applied: boolean;
  /** 1, but for the items of a batch after its first. */
  readonly requests: 0 | 1;
}

interface Stored {
  readonly attributes: Attributes;
  readonly bytes: number;
}

const ITEM_BYTES = 400 * 1024;
const PAGE_BYTES = 2 ** 20;

const readUnitsOf = (bytes: number, consistent = true) => Math.max(1, Math.ceil(bytes / 4096)) * (consistent ? 1 : 0.5);
const writeUnitsOf = (bytes: number) => Math.max(1, Math.ceil(bytes / 1024));

export interface MemoryTable {
  /** One caller's way in; `used` hears of each use. */
  api(used: (use: TableUse) => void): DynamoApi;
  /** Bytes of all items. */
  bytes(): number;
}

export function openMemoryTable(): MemoryTable {
  const partitions = new Map<string, Map<string, Stored>>();
  let total = 0;
  const find = ({ pk, sk }: Attributes) => partitions.get(pk?.S ?? "")?.get(sk?.S ?? "");

  function store(attributes: Attributes): Stored {
    const stored = { attributes, bytes: itemBytes(unmarshall(attributes)) };
    if (stored.bytes > ITEM_BYTES) throw invalid("Item size has exceeded the maximum allowed size");
    const pk = attributes["pk"]?.S ?? "";
    const partition = partitions.get(pk) ?? new Map<string, Stored>();
    total += stored.bytes - (find(attributes)?.bytes ?? 0);
    partitions.set(pk, partition.set(attributes["sk"]?.S ?? "", stored));
    return stored;
  }

  return {
    bytes: () => total,
    api(used) {
      const read = (operation: TableUse["operation"], key: Attributes, consistent: boolean, requests: 0 | 1) => {
        const found = find(key);
        const bytes = found?.bytes ?? 0;
        const units = { readUnits: readUnitsOf(bytes, consistent), writeUnits: 0 };
        used({ operation, ...addressOf(key), ...units, bytes, applied: true, requests });
        return found?.attributes;
      };
      const wrote = (operation: TableUse["operation"], key: Attributes, before?: Stored, after?: Stored) => {
        const bytes = after?.bytes ?? before?.bytes ?? 0;
        const units = { readUnits: 0, writeUnits: writeUnitsOf(Math.max(bytes, before?.bytes ?? 0)) };
        used({ operation, ...addressOf(key), ...units, bytes, applied: after !== undefined, requests: 1 });
        if (!after) throw Object.assign(new Error("not now"), { name: "ConditionalCheckFailedException" });
        return after.attributes;
      };
      return {
        async getItem({ Key = {}, ConsistentRead = false }) {
          return { Item: read("GetItem", Key, ConsistentRead, 1) };
        },
        async batchGetItem({ RequestItems = {} }) {
          const asked = Object.entries(RequestItems).map(([table, { Keys = [], ConsistentRead = false }]) => {
            const found = Keys.map((key, i) => read("BatchGetItem", key, ConsistentRead, i === 0 ? 1 : 0));
            return [table, found.filter((item) => item !== undefined)] as const;
          });
          return { Responses: Object.fromEntries(asked) };
        },
        async putItem(input) {
          const { Item = {} } = input;
          const before = find(Item);
          return wrote("PutItem", Item, before, conditionHolds(input, before?.attributes) ? store(Item) : undefined);
        },
        async updateItem(input) {
          const { Key = {} } = input;
          const before = find(Key);
          const after = conditionHolds(input, before?.attributes) ? store(applyUpdate(input, before?.attributes ?? Key)) : undefined;
          return { Attributes: wrote("UpdateItem", Key, before, after) };
        },
        async query({ ExpressionAttributeValues: values = {}, ConsistentRead = false, ExclusiveStartKey: after }) {
          const [pk = "", prefix = ""] = [values[":pk"]?.S, values[":prefix"]?.S];
          const rows = [...(partitions.get(pk) ?? [])]
            .filter(([sk]) => sk.startsWith(prefix) && (after === undefined || sk > (after["sk"]?.S ?? "")))
            .sort(([a], [b]) => (a < b ? -1 : 1));
          let bytes = 0;
          const page = rows.filter((_, i) => {
            const room = bytes < PAGE_BYTES;
            if (room) bytes += rows[i]?.[1].bytes ?? 0;
            return room;
          });
          const units = { readUnits: readUnitsOf(bytes, ConsistentRead), writeUnits: 0 };
          const kind = `${prefix.split("#")[0] || "all"}*`;
          used({ operation: "Query", pk, kind, ...units, bytes, applied: true, requests: 1 });
          const last = page.at(-1)?.[0];
          return {
            Items: page.map(([, { attributes }]) => attributes),
            ...(page.length < rows.length && { LastEvaluatedKey: { pk: { S: pk }, sk: { S: last ?? "" } } }),
          };
        },
      };
    },
  };
}

function addressOf({ pk, sk }: Attributes) {
  return { pk: pk?.S ?? "", kind: sk?.S?.split("#")[0] ?? "" };
}
