/** @file The AWS limits that the simulation compares with: default quotas in us-east-1, from AWS's documentation in November 2026. */
import { ITEM_BYTES } from "../../core/contracts/bounds.ts";

interface Limit {
  readonly what: string;
  readonly limit: number;
}

export const LIMITS = {
  /** docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html; never raised. */
  partitionWrites: { what: "write units of a DynamoDB partition per second", limit: 1000 },
  partitionReads: { what: "read units of a DynamoDB partition per second", limit: 3000 },
  /**
   * repost.aws/knowledge-center/on-demand-table-throttling-dynamodb: the initial throughput of an on-demand table. It grows
   * automatically, to twice the previous peak within 30 minutes, up to the quota of 40,000 (Limits.html), which AWS raises on request;
   * `update-table --warm-throughput` raises it in advance.
   */
  newTableWrites: { what: "write units of a new table per second", limit: 4000 },
  newTableReads: { what: "read units of a new table per second", limit: 12_000 },
  /** docs.aws.amazon.com/amazondynamodb/latest/developerguide/Limits.html; never raised. */
  itemBytes: { what: "bytes of a DynamoDB item", limit: ITEM_BYTES },
  /**
   * docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html; S3 splits a prefix that stays busy, which can
   * take 30 to 60 minutes (repost.aws/knowledge-center/s3-object-key-naming-pattern).
   */
  prefixWrites: { what: "S3 PUTs of a prefix per second", limit: 3500 },
  prefixReads: { what: "S3 GETs and HEADs of a prefix per second", limit: 5500 },
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
