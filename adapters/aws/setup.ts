/**
 * @file Creates the table, the bucket and its rule that expires abandoned uploads, unless they exist; deletes the table, single items and the
 * bucket. Each is idempotent. `refuseForeignTable` and `refuseForeignBucket` look for other programs' data before a deletion.
 */
import {
  CreateTableCommand,
  DeleteItemCommand,
  DeleteTableCommand,
  DescribeTableCommand,
  type DynamoDBClient,
  GetItemCommand,
  ScanCommand,
  type TableDescription,
} from "@aws-sdk/client-dynamodb";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectsCommand,
  GetBucketLifecycleConfigurationCommand,
  type LifecycleRule,
  ListObjectsV2Command,
  PutBucketLifecycleConfigurationCommand,
  type S3Client,
  type S3ServiceException,
} from "@aws-sdk/client-s3";
import pRetry from "p-retry";
import { isRunPartition, type TableKey, tableKeys } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";

export type SetupOutcome = "created" | "exists";

/** The lifecycle rule of a bucket, or why it has none. */
export type LifecycleOutcome =
  | { readonly outcome: "created" }
  | { readonly outcome: "exists" }
  | { readonly outcome: "none"; readonly why: string };

/** Runs, and the test objects and items of `cloud check`. */
const OUR_OBJECTS = /^(runs|check)\//;
const isOurs = (pk: string) => isRunPartition(pk) || pk.startsWith("CHECK#");
/** The most items that are inspected before a table is deleted: other programs' tables may have the key (pk, sk) too. */
const INSPECTED_ITEMS = 1000;
const CONCURRENT_DELETES = 25;
/** Days until the parts of an abandoned upload expire, as in a deployment (stacks/storage.ts). */
const UPLOAD_DAYS = 2;
/** AWS takes seconds to create or delete a table. */
const WAIT = { retries: 30, minTimeout: 20, factor: 1.5, maxTimeout: 2000 };

const nameOf = (error: unknown) => (error as Error).name;

/** Keys `pk` and `sk`, billed per request. Rejects with `config-invalid` if the table exists with other keys. */
export async function createTable(dynamo: DynamoDBClient, name: string): Promise<SetupOutcome> {
  const found = await describeTable(dynamo, name);
  const isBeingDeleted = found?.TableStatus === "DELETING";
  // An interrupted `cloud destroy` leaves the table in this state.
  if (isBeingDeleted) await untilDeleted(dynamo, name);
  const exists = found !== undefined && !isBeingDeleted;
  if (!exists) {
    const command = new CreateTableCommand({
      TableName: name,
      BillingMode: "PAY_PER_REQUEST",
      AttributeDefinitions: [
        { AttributeName: "pk", AttributeType: "S" },
        { AttributeName: "sk", AttributeType: "S" },
      ],
      KeySchema: [
        { AttributeName: "pk", KeyType: "HASH" },
        { AttributeName: "sk", KeyType: "RANGE" },
      ],
    });
    await ignoring(/^ResourceInUseException$/, () => dynamo.send(command));
  }
  await pRetry(async () => {
    const table = await describeTable(dynamo, name);
    if (table?.TableStatus !== "ACTIVE") throw new Error(`table ${name} is ${table?.TableStatus ?? "not visible yet"}`);
  }, WAIT);
  return exists ? "exists" : "created";
}

/** Undefined if there is none. Rejects with `config-invalid` if its key is not (pk, sk), unless it is being deleted. */
async function describeTable(dynamo: DynamoDBClient, name: string): Promise<TableDescription | undefined> {
  let table: TableDescription | undefined;
  try {
    table = (await dynamo.send(new DescribeTableCommand({ TableName: name }))).Table;
  } catch (error) {
    if (nameOf(error) === "ResourceNotFoundException") return undefined;
    throw error;
  }
  // DynamoDB may leave out the key of a table that is being deleted.
  if (table?.TableStatus === "DELETING") return table;
  const types = new Map(table?.AttributeDefinitions?.map((field) => [field.AttributeName, field.AttributeType]));
  const keys = table?.KeySchema?.map((key) => `${key.AttributeName} ${types.get(key.AttributeName)} ${key.KeyType}`);
  if (keys?.join(", ") !== "pk S HASH, sk S RANGE")
    throw new MgrpoError(
      "config-invalid",
      `table '${name}' belongs to another program: its key is (${keys?.join(", ")}), ours is (pk S HASH, sk S RANGE); choose another MGRPO_TABLE`,
    );
  return table;
}

/** Rejects with `config-invalid` if another account has a bucket with this name, or if its policy refuses these credentials. */
export async function createBucket(s3: S3Client, name: string): Promise<SetupOutcome> {
  if (await bucketExists(s3, name)) return "exists";
  try {
    await s3.send(new CreateBucketCommand({ Bucket: name }));
  } catch (error) {
    if (nameOf(error) === "BucketAlreadyOwnedByYou") return "exists";
    if (nameOf(error) === "BucketAlreadyExists") throw foreignBucket(name, error);
    throw error;
  }
  return "created";
}

/**
 * Lets the parts of abandoned uploads expire: a killed worker neither completes nor aborts its own. The bucket's existing rules
 * stay as they are. A store without lifecycle rules is fine: a run needs none.
 */
export async function expireUploads(s3: S3Client, name: string): Promise<LifecycleOutcome> {
  try {
    const rules = await lifecycleOf(s3, name);
    if (rules.some(expiresOurUploads)) return { outcome: "exists" };
    if (rules.length > 0)
      return { outcome: "none", why: "the bucket has other lifecycle rules, which are not touched" };
    const DaysAfterInitiation = UPLOAD_DAYS;
    const rule = { ID: "unfinished-uploads", Status: "Enabled", Filter: { Prefix: "" } } as const;
    const Rules = [{ ...rule, AbortIncompleteMultipartUpload: { DaysAfterInitiation } }];
    await s3.send(new PutBucketLifecycleConfigurationCommand({ Bucket: name, LifecycleConfiguration: { Rules } }));
    return { outcome: "created" };
  } catch (error) {
    const { httpStatusCode = 500 } = (error as Partial<S3ServiceException>).$metadata ?? {};
    if (httpStatusCode >= 500 && httpStatusCode !== 501) throw error;
    return { outcome: "none", why: `the store refuses such rules (${nameOf(error)}: ${(error as Error).message})` };
  }
}

/** A disabled rule does nothing, and one with a prefix may apply to other objects only. */
function expiresOurUploads({ Status, Filter, Prefix, AbortIncompleteMultipartUpload }: LifecycleRule): boolean {
  const prefix = Filter?.Prefix ?? Prefix ?? "";
  return Status === "Enabled" && AbortIncompleteMultipartUpload !== undefined && "runs/".startsWith(prefix);
}

async function lifecycleOf(s3: S3Client, name: string) {
  try {
    return (await s3.send(new GetBucketLifecycleConfigurationCommand({ Bucket: name }))).Rules ?? [];
  } catch (error) {
    if (nameOf(error) === "NoSuchLifecycleConfiguration") return [];
    throw error;
  }
}

/** Lists one object instead of sending HEAD, since the error response of HEAD has no body, and so no error code. */
async function bucketExists(s3: S3Client, name: string): Promise<boolean> {
  try {
    await s3.send(new ListObjectsV2Command({ Bucket: name, MaxKeys: 1 }));
    return true;
  } catch (error) {
    if (nameOf(error) === "NoSuchBucket") return false;
    if (nameOf(error) === "AccessDenied") throw foreignBucket(name, error);
    throw error;
  }
}

const foreignBucket = (name: string, cause: unknown) =>
  new MgrpoError(
    "config-invalid",
    `bucket '${name}' belongs to another account, or its policy refuses these credentials: choose another MGRPO_BUCKET`,
    { cause },
  );

/** Rejects, before anything is deleted, if the bucket holds foreign data. */
export async function refuseForeignBucket(s3: S3Client, bucket: string): Promise<void> {
  if (!(await bucketExists(s3, bucket))) return;
  for (let ContinuationToken: string | undefined; ; ) {
    const page = await s3.send(new ListObjectsV2Command({ Bucket: bucket, ContinuationToken }));
    const foreign = page.Contents?.find(({ Key = "" }) => !OUR_OBJECTS.test(Key));
    if (foreign)
      throw new MgrpoError(
        "config-invalid",
        `bucket '${bucket}' holds '${foreign.Key}', which is not from this program: nothing was deleted`,
      );
    ContinuationToken = page.NextContinuationToken;
    if (ContinuationToken === undefined) return;
  }
}

/**
 * Rejects, before anything is deleted, if the table belongs to a deployment, or if an item on the first page of a scan is foreign. The page
 * has at most `INSPECTED_ITEMS` items and 1 MB.
 */
export async function refuseForeignTable(dynamo: DynamoDBClient, table: string): Promise<void> {
  const found = await describeTable(dynamo, table);
  // A table that is being deleted, by an interrupted `cloud destroy`, can no longer be read.
  if (!found || found.TableStatus === "DELETING") return;
  const { pk, sk } = tableKeys.deployment;
  const { Item } = await dynamo.send(
    new GetItemCommand({ TableName: table, Key: { pk: { S: pk }, sk: { S: sk } }, ConsistentRead: true }),
  );
  if (Item)
    throw new MgrpoError(
      "config-invalid",
      `table '${table}' belongs to a deployment: npx sst remove deletes it; nothing was deleted`,
    );
  const { Items = [] } = await dynamo.send(
    new ScanCommand({ TableName: table, ProjectionExpression: "pk", Limit: INSPECTED_ITEMS }),
  );
  const foreign = Items.map((item) => item["pk"]?.S ?? "").find((key) => !isOurs(key));
  if (foreign === undefined) return;
  throw new MgrpoError(
    "config-invalid",
    `table '${table}' holds '${foreign}', which is not from this program; nothing was deleted`,
  );
}

/** Deletes the bucket and every object in it. */
export async function deleteBucket(s3: S3Client, name: string): Promise<void> {
  if (!(await bucketExists(s3, name))) return;
  for (;;) {
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: name }));
    if (Contents.length === 0) break;
    const Objects = Contents.map(({ Key }) => ({ Key }));
    const { Errors } = await s3.send(new DeleteObjectsCommand({ Bucket: name, Delete: { Objects, Quiet: true } }));
    const [first] = Errors ?? [];
    if (first) throw Object.assign(new Error(`${first.Key}: ${first.Message}`), { name: first.Code });
  }
  await ignoring(/^NoSuchBucket$/, () => s3.send(new DeleteBucketCommand({ Bucket: name })));
}

/** Resolves once the name is free again. */
export async function deleteTable(dynamo: DynamoDBClient, name: string): Promise<void> {
  await ignoring(/^ResourceNotFoundException$/, () => dynamo.send(new DeleteTableCommand({ TableName: name })));
  await untilDeleted(dynamo, name);
}

async function untilDeleted(dynamo: DynamoDBClient, name: string): Promise<void> {
  await pRetry(async () => {
    const table = await describeTable(dynamo, name);
    if (table) throw new Error(`table ${name} is ${table.TableStatus}`);
  }, WAIT);
}

export async function deleteItems(dynamo: DynamoDBClient, table: string, keys: readonly TableKey[]): Promise<void> {
  for (let from = 0; from < keys.length; from += CONCURRENT_DELETES) {
    const deletions = keys.slice(from, from + CONCURRENT_DELETES).map(({ pk, sk }) => {
      return dynamo.send(new DeleteItemCommand({ TableName: table, Key: { pk: { S: pk }, sk: { S: sk } } }));
    });
    await Promise.all(deletions);
  }
}

/** Errors with these names mean that the change has already been made. */
async function ignoring(done: RegExp, change: () => Promise<unknown>): Promise<void> {
  try {
    await change();
  } catch (error) {
    if (!done.test(nameOf(error))) throw error;
  }
}
