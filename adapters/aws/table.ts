/**
 * @file Table on DynamoDB. All reads are consistent. When a condition fails the item is read again: not every compatible store
 * returns it with the failure.
 */
import {
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  paginateQuery,
  UpdateItemCommand,
} from "@aws-sdk/client-dynamodb";
import { marshall, type NativeAttributeValue, unmarshall } from "@aws-sdk/util-dynamodb";
import type { TableKey } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Table, TableItem } from "../../core/ports.ts";
import { translated } from "./errors.ts";
import { expressionsOf } from "./expression.ts";
import type { CountingMeter } from "./meter.ts";

export interface TableOptions {
  readonly dynamo: DynamoDBClient;
  readonly name: string;
  readonly meter: CountingMeter;
  readonly endpoint: () => string;
}

export function openTable({ dynamo, name, meter, endpoint }: TableOptions): Table {
  const call = <T>(doing: string, key: TableKey, work: () => Promise<T>) =>
    translated(`${doing} ${key.pk} ${key.sk}`, endpoint, work);

  const read = async (key: TableKey) => {
    const found = await dynamo.send(
      new GetItemCommand({ TableName: name, Key: wire({ ...key }), ConsistentRead: true }),
    );
    return found.Item && itemOf(found.Item);
  };

  return {
    get: (key) => call("read", key, () => read(key)),

    insert: (key, item) =>
      call("insert", key, async () => {
        const command = new PutItemCommand({
          TableName: name,
          Item: wire({ ...item, ...key }),
          ConditionExpression: "attribute_not_exists(pk)",
        });
        meter.item(item);
        return (await unlessConditionFails(() => dynamo.send(command))) !== undefined;
      }),

    update: (change) =>
      call("update", change.key, async () => {
        const { update, condition, names, values } = expressionsOf(change);
        const command = new UpdateItemCommand({
          TableName: name,
          Key: wire({ ...change.key }),
          UpdateExpression: update,
          ConditionExpression: condition,
          ...(Object.keys(names).length > 0 && { ExpressionAttributeNames: names }),
          ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: wire(values) }),
          ReturnValues: "ALL_NEW",
        });
        const done = await unlessConditionFails(() => dynamo.send(command));
        const item = done ? itemOf(done.Attributes ?? {}) : await read(change.key);
        meter.item(item);
        return { applied: done !== undefined, item };
      }),

    query: (pk, prefix) =>
      call("query", { pk, sk: `${prefix}*` }, async () => {
        const items: TableItem[] = [];
        const pages = paginateQuery(
          { client: dynamo },
          {
            TableName: name,
            KeyConditionExpression: "pk = :pk AND begins_with(sk, :prefix)",
            ExpressionAttributeValues: wire({ ":pk": pk, ":prefix": prefix }),
            ConsistentRead: true,
          },
        );
        for await (const page of pages) items.push(...(page.Items ?? []).map(itemOf));
        return items;
      }),
  };
}

/** Undefined when the write's condition did not hold. */
async function unlessConditionFails<T>(send: () => Promise<T>): Promise<T | undefined> {
  try {
    return await send();
  } catch (error) {
    if (error instanceof ConditionalCheckFailedException) return undefined;
    throw error;
  }
}

function wire(value: Record<string, NativeAttributeValue>) {
  try {
    return marshall(value, { removeUndefinedValues: true });
  } catch (cause) {
    throw new MgrpoError("record-damaged", `a value that DynamoDB cannot keep: ${(cause as Error).message}`, { cause });
  }
}

function itemOf(attributes: Parameters<typeof unmarshall>[0]): TableItem {
  const { pk: _pk, sk: _sk, ...item } = unmarshall(attributes);
  return item;
}
