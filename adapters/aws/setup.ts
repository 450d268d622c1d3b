/** @file Makes the table and the bucket, on whatever endpoints the standard AWS variables name. Repeating it changes nothing. */
import { CreateTableCommand, DescribeTableCommand, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { CreateBucketCommand, type S3Client } from "@aws-sdk/client-s3";
import pRetry from "p-retry";
import { openClients, type WireObserver } from "./clients.ts";
import { translated } from "./errors.ts";
import { regionOf, type StoreNames } from "./store.ts";

export async function createStore(names: StoreNames): Promise<void> {
  const endpoints = { dynamo: "DynamoDB", s3: "S3" };
  const observer = (api: keyof typeof endpoints): WireObserver => ({
    sent: (_command, endpoint) => {
      endpoints[api] = endpoint;
    },
    answered: () => {},
  });
  const region = regionOf(names);
  const clients = openClients(region, { dynamo: observer("dynamo"), s3: observer("s3") });
  try {
    await translated(
      `create table ${names.table}`,
      () => endpoints.dynamo,
      () => createTable(clients.dynamo, names.table),
    );
    await translated(
      `create bucket ${names.bucket}`,
      () => endpoints.s3,
      () => createBucket(clients.s3, names.bucket, region),
    );
  } finally {
    clients.close();
  }
}

/** Records under `pk` and `sk`, paid per request. */
export async function createTable(dynamo: DynamoDBClient, name: string): Promise<void> {
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
  await unlessThere(/^ResourceInUseException$/, () => dynamo.send(command));
  await pRetry(
    async () => {
      const { Table } = await dynamo.send(new DescribeTableCommand({ TableName: name }));
      if (Table?.TableStatus !== "ACTIVE") throw new Error(`table ${name} is ${Table?.TableStatus}`);
    },
    { retries: 30, minTimeout: 20, factor: 1.5, maxTimeout: 2000 },
  );
}

async function createBucket(s3: S3Client, name: string, region: string): Promise<void> {
  // us-east-1 is the one region that must not be named.
  const place =
    region === "us-east-1" ? {} : { CreateBucketConfiguration: { LocationConstraint: region as "eu-west-1" } };
  await unlessThere(/^BucketAlreadyOwnedByYou$/, () => s3.send(new CreateBucketCommand({ Bucket: name, ...place })));
}

async function unlessThere(already: RegExp, create: () => Promise<unknown>): Promise<void> {
  try {
    await create();
  } catch (error) {
    if (!already.test((error as Error).name)) throw error;
  }
}
