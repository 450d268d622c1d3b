/** @file The size of an item as DynamoDB counts it, for its item limit and for what AWS bills for reads and writes. */
import type { NativeAttributeValue } from "@aws-sdk/util-dynamodb";

/** Names and strings in UTF-8, numbers at about 1 byte per two digits plus 1, maps and lists at 3 plus 1 per entry, booleans and null at 1. */
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
