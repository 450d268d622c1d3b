/**
 * @file The path of an object's event to a function: default event bus -> rule -> queue -> function. Of a batch, only failed events are
 * retried. After five deliveries, or if the rule cannot send it to the queue, an event goes to the dead-letter queue, and a later tick does its
 * work (functions/ticking.ts).
 */
/// <reference path="../.sst/platform/config.d.ts" />

const DELIVERIES = 5;
/** AWS recommends six times the function's timeout, so that no message is delivered again while it is being handled. */
const VISIBILITY_FACTOR = 6;
/** 14 days, the maximum retention of SQS. */
const DEAD_LETTER_SECONDS = 14 * 86_400;

export interface Inbox {
  readonly queue: sst.aws.Queue;
  readonly dead: sst.aws.Queue;
}

/** `pattern` matches the object's key; `*` also matches slashes. */
export function createInbox(name: string, bucket: sst.aws.Bucket, pattern: string, functionSeconds: number): Inbox {
  const dead = new sst.aws.Queue(`${name}Dead`, {
    transform: { queue: { sqsManagedSseEnabled: true, messageRetentionSeconds: DEAD_LETTER_SECONDS } },
  });
  const queue = new sst.aws.Queue(`${name}Queue`, {
    visibilityTimeout: `${VISIBILITY_FACTOR * functionSeconds} seconds`,
    dlq: { queue: dead.arn, retry: DELIVERIES },
    transform: { queue: { sqsManagedSseEnabled: true } },
  });
  const rule = new aws.cloudwatch.EventRule(`${name}Rule`, {
    eventPattern: $jsonStringify({
      // Tick resends the events of unscored outcomes, with source mgrpo.
      source: ["aws.s3", "mgrpo"],
      "detail-type": ["Object Created"],
      detail: { bucket: { name: [bucket.name] }, object: { key: [{ wildcard: pattern }] } },
    }),
  });
  for (const [part, { arn, url }] of Object.entries({ Queue: queue, Dead: dead }))
    allowRule(`${name}${part}`, rule, arn, url);
  new aws.cloudwatch.EventTarget(`${name}Target`, {
    rule: rule.name,
    arn: queue.arn,
    deadLetterConfig: { arn: dead.arn },
  });
  return { queue, dead };
}

/** Only this rule may send to the queue (sst.aws.Bus.subscribeQueue would allow any rule of any account). */
function allowRule(name: string, rule: aws.cloudwatch.EventRule, arn: $util.Output<string>, url: $util.Output<string>) {
  const policy = aws.iam.getPolicyDocumentOutput({
    statements: [
      {
        actions: ["sqs:SendMessage"],
        resources: [arn],
        principals: [{ type: "Service", identifiers: ["events.amazonaws.com"] }],
        conditions: [{ test: "ArnEquals", variable: "aws:SourceArn", values: [rule.arn] }],
      },
    ],
  });
  new aws.sqs.QueuePolicy(`${name}Policy`, { queueUrl: url, policy: policy.json });
}

/** The permissions with which Lambda polls the queue for a function that is subscribed by its ARN. */
export function receiveFrom({ queue }: Inbox): sst.aws.FunctionPermissionArgs {
  const actions = ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes", "GetQueueUrl"];
  return { actions: actions.map((action) => `sqs:${action}`), resources: [queue.arn] };
}
