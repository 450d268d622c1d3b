/** @file The table and the bucket: keys, recovery, encryption, no public access, expiry, events, and which data outlives its stack. */
import { expect, inject, test } from "vitest";
import { isConversationKey, objectKeys, tableKeys } from "../../core/contracts/keys.ts";
import { CONVERSATION_DAYS } from "../../core/training/retention.ts";
import { finalizeGroupRecord } from "../../core/training/writes.ts";
import { ofKind, resourceNamed, statementsOf } from "./resources.ts";

const prod = inject("prod");
const serverless = inject("serverless");
const only = (kind: string, deployment = prod) => {
  const [found, ...others] = ofKind(deployment, kind);
  if (!found || others.length > 0) return expect.fail(`expected exactly one ${kind}`);
  return found.inputs;
};

test("the table has the keys of the table contract, pay-per-request billing, point-in-time recovery and expiry", () => {
  const table = only("Table");
  expect([table.hashKey, table.rangeKey]).toEqual(Object.keys(tableKeys.run("r")));
  expect(table.attributes.map(({ type }) => type)).toEqual(["S", "S"]);
  expect(table.billingMode).toBe("PAY_PER_REQUEST");
  expect(table.pointInTimeRecovery).toEqual({ enabled: true });
  const ttl = { attributeName: "expiresAt", enabled: true };
  expect(table.ttl).toEqual(ttl);
  expect(finalizeGroupRecord({ run: "r", step: 0, group: 0 }, {}, 1).set).toContainEqual([[ttl.attributeName], 1]);
});

test("the table, objects, queues and parameters are encrypted at rest, and objects also in transit", () => {
  // Without this block, DynamoDB encrypts a table with a key that AWS owns.
  expect(only("Table").serverSideEncryption).toBeUndefined();
  const [rule] = only("BucketServerSideEncryptionConfiguration").rules;
  expect(rule?.applyServerSideEncryptionByDefault.sseAlgorithm).toBe("AES256");
  const [queues, parameters] = [ofKind(prod, "Queue"), ofKind(prod, "Parameter")];
  expect([queues, parameters]).not.toContainEqual([]);
  for (const { name, inputs } of queues) expect(inputs.sqsManagedSseEnabled, name).toBe(true);
  for (const { name, inputs } of parameters) expect(inputs.type, name).toBe("SecureString");
  const [https] = statementsOf(prod).filter(({ of }) => of === "ObjectsPolicy");
  expect(https?.statement).toMatchObject({
    ...{ effect: "Deny", actions: ["s3:*"] },
    conditions: [{ variable: "aws:SecureTransport", values: ["false"] }],
  });
});

test("nothing is public", () => {
  expect(only("BucketPublicAccessBlock")).toMatchObject({
    ...{ blockPublicAcls: true, blockPublicPolicy: true, ignorePublicAcls: true, restrictPublicBuckets: true },
  });
  for (const kind of ["BucketCorsConfiguration", "FunctionUrl", "BucketAcl", "NatGateway"])
    expect(ofKind(prod, kind), kind).toEqual([]);
});

test("only conversations and telemetry, after 90 days, and worker logs expire; unfinished uploads are aborted after two days", () => {
  const { rules } = only("BucketLifecycleConfiguration");
  const expiring = rules.filter(({ expiration }) => expiration);
  expect(expiring.map(({ filter }) => filter)).toEqual([
    { tag: { key: "mgrpo", value: "conversation" } },
    { prefix: "logs/" },
  ]);
  expect(expiring[0]?.expiration).toEqual({ days: CONVERSATION_DAYS });
  expect(rules.find(({ id }) => id === "unfinished-uploads")).toMatchObject({
    filter: { prefix: "" },
    abortIncompleteMultipartUpload: { daysAfterInitiation: 2 },
  });
  const address = { run: "r", phase: "train", step: 0, group: 0, rollout: 0 };
  const expired = [
    objectKeys.outcome(address),
    objectKeys.outcome({ ...address, phase: "eval:job" }),
    objectKeys.invocation("r", 0, "0"),
    objectKeys.stepTelemetry("r", 0, "main-1"),
    objectKeys.trainedTokens("r", 0, "main"),
  ];
  expect(expired.filter((key) => !isConversationKey(key))).toEqual([]);
  const kept = [
    objectKeys.config("r"),
    objectKeys.questions("r"),
    objectKeys.part("r", "0"),
    objectKeys.manifest("r", "main", 0),
    objectKeys.team("r", 0),
    objectKeys.verdict("r", "0", "judge"),
    objectKeys.toolAnswer("r", "0"),
    objectKeys.evaluation("r", "job"),
  ];
  expect(kept.filter(isConversationKey)).toEqual([]);
});

test("the bucket notifies EventBridge of new objects", () => {
  expect(only("BucketNotification")).toEqual({ bucket: only("Bucket").bucket, eventbridge: true });
});

test("prod's data outlives its stack; any other stage's data is deleted with its stack", () => {
  expect(only("Table").deletionProtectionEnabled).toBe(true);
  expect(only("Bucket").forceDestroy).toBe(false);
  expect(prod.app).toMatchObject({ removal: "retain", protect: true });
  expect(resourceNamed(ofKind(serverless, "Table"), "RecordsTable").inputs.deletionProtectionEnabled).toBe(false);
  expect(only("Bucket", serverless).forceDestroy).toBe(true);
  expect(serverless.app).toMatchObject({ removal: "remove", protect: false });
});
