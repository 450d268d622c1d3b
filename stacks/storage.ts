/** @file The store: one table of small records, one bucket of objects whose creation EventBridge tells. */
/// <reference path="../.sst/platform/config.d.ts" />

export interface Storage {
  readonly table: sst.aws.Dynamo;
  readonly bucket: sst.aws.Bucket;
}

export function createStorage(): Storage {
  const table = new sst.aws.Dynamo("Records", {
    fields: { pk: "string", sk: "string" },
    primaryIndex: { hashKey: "pk", rangeKey: "sk" },
  });
  const bucket = new sst.aws.Bucket("Objects", { enforceHttps: true });
  // sst.aws.Bucket.notify cannot send to EventBridge; the raw resource can.
  new aws.s3.BucketNotification("ObjectsEvents", { bucket: bucket.name, eventbridge: true });
  return { table, bucket };
}
