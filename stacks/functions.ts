/**
 * @file The functions and what wakes them. Events of new objects reach each function through a queue of its own, so that a failed one
 * comes again; after five deliveries it rests in the dead-letter queue, and the clock repairs what it meant.
 */
/// <reference path="../.sst/platform/config.d.ts" />
import type { Storage } from "./storage.ts";

/** Object keys that wake a function. `*` spans slashes. */
const WAKES = {
  scoreRollout: "runs/*/outcomes/*.json",
  tick: "runs/*/manifests/*.json",
  enqueueEvaluation: "runs/*/teams/*.json",
  recordEvaluation: "runs/*/evaluations/*/result.json",
};

const DELIVERIES = 5;

export function createFunctions({ table, bucket }: Storage) {
  const objects = $interpolate`${bucket.arn}/runs/*`;
  const records = {
    actions: ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem", "dynamodb:PutItem"],
    resources: [table.arn],
  };
  // Listing is never used; s3:ListBucket only makes a missing object answer 404 instead of 403.
  const find = { actions: ["s3:ListBucket"], resources: [bucket.arn] };
  const readAndCommit = { actions: ["s3:GetObject", "s3:PutObject"], resources: [objects] };
  const forget = { actions: ["s3:DeleteObject"], resources: [$interpolate`${bucket.arn}/runs/*/parts/*`] };
  const read = { actions: ["s3:GetObject"], resources: [objects] };

  const create = (name: string, file: string, permissions: Permission[], seconds: number) =>
    new sst.aws.Function(name, {
      handler: `functions/${file}.handler`,
      runtime: "nodejs22.x",
      architecture: "arm64",
      memory: "1024 MB",
      timeout: `${seconds} seconds`,
      environment: { MGRPO_TABLE: table.name, MGRPO_BUCKET: bucket.name },
      permissions,
    });
  /** A function and the queue through which events of such keys wake it. */
  const woken = (name: string, file: string, permissions: Permission[], pattern: string, batch: number) => {
    const queue = createInbox(name, bucket, pattern);
    const fn = create(name, file, [...permissions, receiveFrom(queue)], 60);
    queue.subscribe(fn.arn, { batch: { size: batch, partialResponses: true } });
    return fn;
  };

  // Whatever scores also ticks, and whatever ticks may close a step and delete what nobody refers to.
  const moving = [records, find, readAndCommit, forget];
  const startRun = create("StartRun", "start-run", [records, find, readAndCommit], 60);
  const tick = woken("Tick", "tick", moving, WAKES.tick, 1);
  woken("ScoreRollout", "score-rollout", moving, WAKES.scoreRollout, 10);
  woken("EnqueueEvaluation", "enqueue-evaluation", [records, find, read], WAKES.enqueueEvaluation, 1);
  woken("RecordEvaluation", "record-evaluation", [records, find, read], WAKES.recordEvaluation, 1);
  const event = { "detail-type": "Scheduled Event" };
  new sst.aws.CronV2("Clock", { schedule: "rate(1 minute)", function: tick.arn, event });
  return { startRun, tick };
}

type Permission = NonNullable<sst.aws.FunctionPermissionArgs>;

/** Object created -> default event bus -> queue. */
function createInbox(name: string, bucket: sst.aws.Bucket, pattern: string): sst.aws.Queue {
  const dead = new sst.aws.Queue(`${name}Dead`);
  // AWS asks for six times the function's own time limit.
  const queue = new sst.aws.Queue(`${name}Queue`, {
    visibilityTimeout: "6 minutes",
    dlq: { queue: dead.arn, retry: DELIVERIES },
  });
  const bus = aws.cloudwatch.getEventBusOutput({ name: "default" });
  sst.aws.Bus.subscribeQueue(`${name}Rule`, bus.arn, queue, {
    pattern: {
      source: ["aws.s3"],
      detailType: ["Object Created"],
      detail: { bucket: { name: [bucket.name] }, object: { key: [{ wildcard: pattern }] } },
    },
  });
  return queue;
}

/** What Lambda needs to take messages for a function that was subscribed by its ARN. */
function receiveFrom(queue: sst.aws.Queue): Permission {
  const actions = ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes", "GetQueueUrl"];
  return { actions: actions.map((action) => `sqs:${action}`), resources: [queue.arn] };
}
