/** @file The AWS limits against which the simulation checks a load: default quotas in us-east-1, from AWS's documentation in November 2026. */
import { ITEM_BYTES } from "../../core/contracts/bounds.ts";

interface Limit {
  readonly what: string;
  readonly limit: number;
}

export const LIMITS = {
  /** docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html; cannot be raised. */
  partitionWrites: { what: "write units per second of a DynamoDB partition", limit: 1000 },
  partitionReads: { what: "read units per second of a DynamoDB partition", limit: 3000 },
  /**
   * repost.aws/knowledge-center/on-demand-table-throttling-dynamodb: the initial throughput of an on-demand table. Later the
   * table takes up to twice its previous peak; more than that within 30 minutes may be throttled. AWS raises the quota of 40,000
   * (Limits.html) on request; `update-table --warm-throughput` raises the throughput in advance.
   */
  newTableWrites: { what: "write units per second of a new table", limit: 4000 },
  newTableReads: { what: "read units per second of a new table", limit: 12_000 },
  /** docs.aws.amazon.com/amazondynamodb/latest/developerguide/Limits.html; cannot be raised. */
  itemBytes: { what: "bytes of a DynamoDB item", limit: ITEM_BYTES },
  /**
   * docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html; S3 splits a prefix that stays busy, which can
   * take 30 to 60 minutes (repost.aws/knowledge-center/s3-object-key-naming-pattern).
   */
  prefixWrites: { what: "S3 PUTs and DELETEs per second of a prefix", limit: 3500 },
  prefixReads: { what: "S3 GETs and HEADs per second of a prefix", limit: 5500 },
  /** docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html; raised on request. */
  eventTargets: { what: "EventBridge deliveries to targets per second", limit: 18_750 },
  /** docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html; raised on request, and a new account may start lower. */
  lambdaConcurrency: { what: "concurrent Lambda executions", limit: 1000 },
} as const satisfies Record<string, Limit>;

/**
 * How Lambda scales with a queue (docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html): initial concurrent batches, the increase per
 * minute while messages are waiting, and the maximum.
 */
export const QUEUE_SCALING = { initial: 5, perMinute: 300, max: 1250 } as const;
