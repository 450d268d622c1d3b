/** @file The store: one table of small records, and one bucket that sends its events, such as "Object Created", to EventBridge. */
/// <reference path="../.sst/platform/config.d.ts" />
import type { Settings } from "./settings.ts";

export interface Storage {
  readonly table: sst.aws.Dynamo;
  readonly bucket: sst.aws.Bucket;
}

/**
 * Must equal the number in core/training/retention.ts, by which the records of the conversations' groups expire. Weights, manifests and the
 * results of evaluations do not expire.
 */
const CONVERSATION_DAYS = 90;
const LOG_DAYS = 30;
/** Days until the parts of an abandoned upload expire. */
const UPLOAD_DAYS = 2;

export function createStorage({ stage, keep }: Settings): Storage {
  // Paid per request, recoverable to any second of the last 35 days (SST's defaults), encrypted with a key that AWS owns.
  const table = new sst.aws.Dynamo("Records", {
    fields: { pk: "string", sk: "string" },
    primaryIndex: { hashKey: "pk", rangeKey: "sk" },
    // Set on finalized groups, requests for verdicts, dead workers and list entries of archived runs (core/contracts).
    ttl: "expiresAt",
    deletionProtection: keep,
    // `mgrpo launch --stage` finds the deployment by this name (cli/deployment.ts).
    transform: { table: { name: `mgrpo-${stage}` } },
  });
  // Unversioned: an object is written once. Public access (SST's default) and plain HTTP are blocked.
  const bucket = new sst.aws.Bucket("Objects", {
    enforceHttps: true,
    cors: false,
    transform: {
      bucket(args) {
        args.forceDestroy = !keep;
      },
    },
  });
  new aws.s3.BucketServerSideEncryptionConfiguration("ObjectsEncryption", {
    bucket: bucket.name,
    rules: [{ applyServerSideEncryptionByDefault: { sseAlgorithm: "AES256" } }],
  });
  // By tag, because the prefix of a rule cannot skip the name of the run. adapters/aws/object-store.ts sets it.
  new aws.s3.BucketLifecycleConfiguration("ObjectsLifecycle", {
    bucket: bucket.name,
    rules: [
      {
        id: "conversations",
        status: "Enabled",
        filter: { tag: { key: "mgrpo", value: "conversation" } },
        expiration: { days: CONVERSATION_DAYS },
      },
      { id: "worker-logs", status: "Enabled", filter: { prefix: "logs/" }, expiration: { days: LOG_DAYS } },
      {
        id: "unfinished-uploads",
        status: "Enabled",
        filter: { prefix: "" },
        abortIncompleteMultipartUpload: { daysAfterInitiation: UPLOAD_DAYS },
      },
    ],
  });
  // sst.aws.Bucket.notify cannot send to EventBridge; the raw resource can.
  new aws.s3.BucketNotification("ObjectsEvents", { bucket: bucket.name, eventbridge: true });
  return { table, bucket };
}
