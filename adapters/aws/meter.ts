/** @file Counts DynamoDB writes: requests, request-body bytes, and write units as AWS bills them. */
import type { NativeAttributeValue } from "@aws-sdk/util-dynamodb";
import type { StoreWrites } from "../../core/contracts/store-writes.ts";

export interface WriteMeter {
  read(): StoreWrites;
}

export interface CountingMeter extends WriteMeter {
  request(command: string, bytes: number): void;
  /** The item as an insert would write it, as an update leaves it, or as an update whose condition fails finds it. */
  item(item: Record<string, NativeAttributeValue> | undefined): void;
}

const WRITES = new Set(["PutItemCommand", "UpdateItemCommand", "DeleteItemCommand"]);

export function openMeter(): CountingMeter {
  let [requests, bytes, units] = [0, 0, 0];
  return {
    request(command, length) {
      if (!WRITES.has(command)) return;
      requests += 1;
      bytes += length;
    },
    item(item) {
      units += Math.max(1, Math.ceil(itemBytes(item ?? {}) / 1024));
    },
    read: () => ({ requests, bytes, units }),
  };
}

/**
 * An item's size in bytes by DynamoDB's rules: names and strings in UTF-8, numbers at about 1 byte per two digits plus 1, maps and lists at 3
 * plus 1 per entry.
 */
export function itemBytes(item: Record<string, NativeAttributeValue>): number {
  return Object.entries(item).reduce((total, [name, value]) => total + Buffer.byteLength(name) + valueBytes(value), 0);
}

function valueBytes(value: NativeAttributeValue): number {
  if (typeof value === "string") return Buffer.byteLength(value);
  if (typeof value === "number") return Math.ceil(String(value).replace(/[-.]/g, "").length / 2) + 1;
  if (Array.isArray(value)) return value.reduce((total: number, entry) => total + 1 + valueBytes(entry), 3);
  if (typeof value === "object" && value !== null) return 3 + Object.keys(value).length + itemBytes(value);
  return 1;
}
