/** @file The store: one table of small records, one bucket of objects whose creation EventBridge tells. */
/// <reference path="../.sst/platform/config.d.ts" />
import type { Settings } from "./settings.ts";

export interface Storage {
  readonly table: sst.aws.Dynamo;
  readonly bucket: sst.aws.Bucket;
}

/** Days that the conversations of a run are kept, and as long the records of their groups. Weights, manifests, reports and scores stay. */
const CONVERSATION_DAYS = 90;
const LOG_DAYS = 30;
/** Days until the parts of an upload that was never completed go. */
const UPLOAD_DAYS = 2;

export function createStorage({ stage, keep }: Settings): Storage {
  // Paid per request, recoverable to any second of the last 35 days (SST's defaults), encrypted with a key that AWS owns.
  const table = new sst.aws.Dynamo("Records", {
    fields: { pk: "string", sk: "string" },
    primaryIndex: { hashKey: "pk", rangeKey: "sk" },
    // Written when a group is finalized; no other record expires.
    ttl: "expiresAt",
    deletionProtection: keep,
    // By this name `mgrpo launch --stage` finds the deployment (deployment.ts).
    transform: { table: { name: `mgrpo-${stage}` } },
  });
  // No versions: an object is written once. Public access is blocked (SST's default), and so is plain HTTP.
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
  // By tag, since a rule's prefix cannot leave out the run's name: adapters/aws/object-store.ts sets it.
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
