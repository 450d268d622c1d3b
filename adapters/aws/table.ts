/**
 * @file Table on DynamoDB. All reads are strongly consistent. When the condition of an update fails, the item is read: not every compatible store
 * returns it with the failure.
 */
import { setTimeout as pause } from "node:timers/promises";
import {
  type AttributeValue,
  BatchGetItemCommand,
  type BatchGetItemCommandInput,
  DeleteItemCommand,
  type DeleteItemCommandInput,
  type DynamoDBClient,
  GetItemCommand,
  type GetItemCommandInput,
  PutItemCommand,
  type PutItemCommandInput,
  QueryCommand,
  type QueryCommandInput,
  UpdateItemCommand,
  type UpdateItemCommandInput,
} from "@aws-sdk/client-dynamodb";
import { marshall, type NativeAttributeValue, unmarshall } from "@aws-sdk/util-dynamodb";
import type { TableKey } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Table, TableChange, TableItem } from "../../core/ports.ts";
import { translated } from "./errors.ts";
import { expressionsOf } from "./expression.ts";
import { BATCH_READ_KEYS } from "./limits.ts";

type Attributes = Record<string, AttributeValue>;

/** The operations of DynamoDB that a table uses: the SDK's, or an equivalent's. */
export interface DynamoApi {
  getItem(input: GetItemCommandInput): Promise<{ Item?: Attributes | undefined }>;
  batchGetItem(input: BatchGetItemCommandInput): Promise<{
    Responses?: Record<string, Attributes[]> | undefined;
    UnprocessedKeys?: BatchGetItemCommandInput["RequestItems"];
  }>;
  putItem(input: PutItemCommandInput): Promise<unknown>;
  updateItem(input: UpdateItemCommandInput): Promise<{ Attributes?: Attributes | undefined }>;
  deleteItem(input: DeleteItemCommandInput): Promise<unknown>;
  query(
    input: QueryCommandInput,
  ): Promise<{ Items?: Attributes[] | undefined; LastEvaluatedKey?: Attributes | undefined }>;
}

export const sdkApi = (dynamo: DynamoDBClient): DynamoApi => ({
  getItem: (input) => dynamo.send(new GetItemCommand(input)),
  batchGetItem: (input) => dynamo.send(new BatchGetItemCommand(input)),
  putItem: (input) => dynamo.send(new PutItemCommand(input)),
  updateItem: (input) => dynamo.send(new UpdateItemCommand(input)),
  deleteItem: (input) => dynamo.send(new DeleteItemCommand(input)),
  query: (input) => dynamo.send(new QueryCommand(input)),
});

/** The wait before a batch is requested again, after a response without any of its items; doubles each time. */
const MIN_PAUSE_MS = 50;
const MAX_PAUSE_MS = 2000;

export interface TableOptions {
  readonly api: DynamoApi;
  readonly name: string;
  readonly endpoint: () => string;
}

export function openTable(options: TableOptions): Table {
  const { api, name, endpoint } = options;
  const call = <T>(operation: string, { pk, sk }: TableKey, work: () => Promise<T>) =>
    translated(`${operation} ${pk} ${sk}`, endpoint, work);
  return {
    get: (key) => call("read", key, () => read(options, key)),
    async getAll(keys) {
      const items = new Map<string, TableItem>();
      for (const batch of batchesOf(keys)) {
        const found = await call("read", batch[0] as TableKey, () => readBatch(options, batch));
        for (const attributes of found) items.set(addressOf(attributes), itemOf(attributes));
      }
      return keys.map((key) => items.get(addressOf(marshaled({ ...key }))));
    },
    insert: (key, item) => call("insert", key, () => insert(options, key, item)),
    update: (change) => call("update", change.key, () => update(options, change)),
    async delete(key) {
      await call("delete", key, () => api.deleteItem({ TableName: name, Key: marshaled({ ...key }) }));
    },
    query: (pk, prefix) => call("query", { pk, sk: `${prefix}*` }, () => query(options, pk, prefix)),
  };
}

async function read({ api, name }: TableOptions, key: TableKey): Promise<TableItem | undefined> {
  const { Item } = await api.getItem({ TableName: name, Key: marshaled({ ...key }), ConsistentRead: true });
  return Item && itemOf(Item);
}

const batchesOf = (keys: readonly TableKey[]) =>
  Array.from({ length: Math.ceil(keys.length / BATCH_READ_KEYS) }, (_, i) =>
    keys.slice(i * BATCH_READ_KEYS, (i + 1) * BATCH_READ_KEYS),
  );

async function readBatch({ api, name }: TableOptions, keys: readonly TableKey[]): Promise<Attributes[]> {
  const items: Attributes[] = [];
  let requested: Attributes[] = keys.map((key) => marshaled({ ...key }));
  for (let wait = MIN_PAUSE_MS; ; ) {
    const { Responses, UnprocessedKeys } = await api.batchGetItem({
      RequestItems: { [name]: { Keys: requested, ConsistentRead: true } },
    });
    items.push(...(Responses?.[name] ?? []));
    const rest = UnprocessedKeys?.[name]?.Keys ?? [];
    if (rest.length === 0) return items;
    const isThrottled = rest.length === requested.length;
    requested = rest;
    // A response has a maximum size, so large items take several.
    if (!isThrottled) {
      wait = MIN_PAUSE_MS;
      continue;
    }
    if (wait > MAX_PAUSE_MS) throw throttled();
    await pause(wait);
    wait *= 2;
  }
}

async function insert({ api, name }: TableOptions, key: TableKey, item: TableItem): Promise<boolean> {
  const input = {
    TableName: name,
    Item: marshaled({ ...item, ...key }),
    ConditionExpression: "attribute_not_exists(pk)",
  };
  return (await unlessConditionFails(() => api.putItem(input))) !== undefined;
}

async function update(options: TableOptions, change: TableChange): ReturnType<Table["update"]> {
  const { api, name } = options;
  const { update: expression, condition, names, values } = expressionsOf(change);
  const input: UpdateItemCommandInput = {
    TableName: name,
    Key: marshaled({ ...change.key }),
    UpdateExpression: expression,
    ConditionExpression: condition,
    ...(Object.keys(names).length > 0 && { ExpressionAttributeNames: names }),
    ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: marshaled(values) }),
    ReturnValues: "ALL_NEW",
  };
  const output = await unlessConditionFails(() => api.updateItem(input));
  const item = output ? itemOf(output.Attributes ?? {}) : await read(options, change.key);
  return { applied: output !== undefined, item };
}

async function query({ api, name }: TableOptions, pk: string, prefix: string): Promise<TableItem[]> {
  const items: TableItem[] = [];
  let next: Attributes | undefined;
  do {
    const page = await api.query({
      TableName: name,
      KeyConditionExpression: "pk = :pk AND begins_with(sk, :prefix)",
      ExpressionAttributeValues: marshaled({ ":pk": pk, ":prefix": prefix }),
      ConsistentRead: true,
      ...(next && { ExclusiveStartKey: next }),
    });
    items.push(...(page.Items ?? []).map(itemOf));
    next = page.LastEvaluatedKey;
  } while (next);
  return items;
}

const addressOf = ({ pk, sk }: Attributes) => `${pk?.S}\n${sk?.S}`;

/**
 * A store leaves out the throttled part of a batch without an error, and some stores do so even if that is the whole batch. This is the error
 * that a store returns for a throttled request.
 */
const throttled = () =>
  Object.assign(new Error("the rest of a batch was not processed, although it was requested several times"), {
    name: "ProvisionedThroughputExceededException",
  });

/** Undefined when the condition of the write failed. */
async function unlessConditionFails<T>(send: () => Promise<T>): Promise<T | undefined> {
  try {
    return await send();
  } catch (error) {
    if ((error as Error).name === "ConditionalCheckFailedException") return undefined;
    throw error;
  }
}

function marshaled(value: Record<string, NativeAttributeValue>) {
  try {
    return marshall(value, { removeUndefinedValues: true });
  } catch (cause) {
    throw new MgrpoError("record-damaged", `a value that DynamoDB cannot store: ${(cause as Error).message}`, {
      cause,
    });
  }
}

function itemOf(attributes: Parameters<typeof unmarshall>[0]): TableItem {
  const { pk: _pk, sk: _sk, ...item } = unmarshall(attributes);
  return item;
}
