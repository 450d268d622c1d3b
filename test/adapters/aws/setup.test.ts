/**
 * @file A bucket's lifecycle rules: ours is added only if the bucket has none, existing rules stay, and a store that
 * refuses lifecycle rules is not an error. A table that is being deleted is recreated once it is gone, and is not
 * searched for foreign data.
 */
import { CreateTableCommand, DescribeTableCommand, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import {
  GetBucketLifecycleConfigurationCommand,
  type LifecycleRule,
  PutBucketLifecycleConfigurationCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { expect, test } from "vitest";
import { createTable, expireUploads, refuseForeignTable } from "../../../adapters/aws/setup.ts";

const serviceError = (name: string, httpStatusCode: number) =>
  Object.assign(new Error("in its own words"), { name, $metadata: { httpStatusCode } });

/** Keeps the rules of one bucket, or rejects every request with the same error. */
function bucket(rules: LifecycleRule[] = [], refusal?: Error) {
  let kept = rules;
  const send = async (command: object) => {
    if (refusal) throw refusal;
    if (command instanceof PutBucketLifecycleConfigurationCommand)
      kept = command.input.LifecycleConfiguration?.Rules ?? [];
    if (command instanceof GetBucketLifecycleConfigurationCommand && kept.length === 0)
      throw serviceError("NoSuchLifecycleConfiguration", 404);
    return { Rules: kept };
  };
  return { s3: { send } as unknown as S3Client, kept: () => kept };
}

test("the rule that expires unfinished uploads is created only once, and expires no objects", async () => {
  const { s3, kept } = bucket();
  expect(await expireUploads(s3, "b")).toEqual({ outcome: "created" });
  expect(await expireUploads(s3, "b")).toEqual({ outcome: "exists" });
  expect(kept()).toEqual([
    {
      ...{ ID: "unfinished-uploads", Status: "Enabled", Filter: { Prefix: "" } },
      AbortIncompleteMultipartUpload: { DaysAfterInitiation: 2 },
    },
  ]);
});

test.each<[string, Partial<LifecycleRule>]>([
  ["that expires objects", { Expiration: { Days: 1 } }],
  ["that is disabled", { Status: "Disabled", AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 } }],
  ["for other objects", { Filter: { Prefix: "photos/" }, AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 } }],
])("a rule %s stays unchanged, and is not taken for one that expires a run's unfinished uploads", async (_, rule) => {
  const rules: LifecycleRule[] = [{ ID: "theirs", Status: "Enabled", ...rule }];
  const { s3, kept } = bucket(rules);
  expect(await expireUploads(s3, "b")).toMatchObject({ outcome: "none", why: expect.stringContaining("not touched") });
  expect(kept()).toBe(rules);
});

test.each([
  ["NotImplemented", 501],
  ["AccessDenied", 403],
  ["MalformedXML", 400],
])("a store that refuses lifecycle rules with %s is not an error; an outage is", async (name, status) => {
  const why = `the store refuses such rules (${name}: in its own words)`;
  expect(await expireUploads(bucket([], serviceError(name, status)).s3, "b")).toEqual({ outcome: "none", why });
  const outage = serviceError("InternalError", 500);
  await expect(expireUploads(bucket([], outage).s3, "b")).rejects.toBe(outage);
});

test("a table that is still being deleted is recreated once it is gone", async () => {
  let lookups = 0;
  let isCreated = false;
  const send = async (command: object) => {
    if (command instanceof CreateTableCommand) {
      isCreated = true;
      return {};
    }
    lookups += 1;
    if (!isCreated && lookups > 3) throw serviceError("ResourceNotFoundException", 400);
    // Without its key schema: DynamoDB may describe it like this.
    if (!isCreated) return { Table: { TableStatus: "DELETING" } };
    const AttributeDefinitions = ["pk", "sk"].map((AttributeName) => ({ AttributeName, AttributeType: "S" }));
    const KeySchema = [
      { AttributeName: "pk", KeyType: "HASH" },
      { AttributeName: "sk", KeyType: "RANGE" },
    ];
    return { Table: { TableStatus: "ACTIVE", AttributeDefinitions, KeySchema } };
  };
  const dynamo = { send } as unknown as DynamoDBClient;
  expect(await createTable(dynamo, "t")).toBe("created");
  expect(isCreated).toBe(true);
  expect(await createTable(dynamo, "t")).toBe("exists");
});

test("a table that is still being deleted is not searched for foreign data: DynamoDB would refuse to read it", async () => {
  const send = async (command: object) => {
    if (command instanceof DescribeTableCommand) return { Table: { TableStatus: "DELETING" } };
    throw serviceError("ResourceNotFoundException", 400);
  };
  await expect(refuseForeignTable({ send } as unknown as DynamoDBClient, "t")).resolves.toBeUndefined();
});
