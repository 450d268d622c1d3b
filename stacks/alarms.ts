/**
 * @file The alarms and the budget, and whom they notify. docs/deploy.md says how to respond to each.
 *
 *     <Function>DeadLetters   an event was abandoned after five deliveries, or did not reach its queue
 *     TickFails               the scheduled tick has failed for five minutes: it could not repair some run, or could not set a
 *                             fleet's capacity or the schedule
 *     StuckStep               a run is under way, without a new score or version for half an hour; notifies per run
 *     StaleHeartbeat          an agent of a run has had no live worker for ten minutes
 *     RunSpend                a run has spent 80% of its budget; at 100% it is halted; notifies per run
 *     budget                  the account has spent 50, 80 or 100% of its monthly budget, or is forecast to exceed it
 */
/// <reference path="../.sst/platform/config.d.ts" />
import type { DeployedFunctions, EventFunction } from "./functions.ts";
import type { Settings } from "./settings.ts";

const NAMESPACE = "mgrpo";
const STUCK_MINUTES = 30;
const STALE_MINUTES = 10;
/** The share of a run's budget, in hours or dollars, whose spending raises the alarm. */
const RUN_SPENT_SHARE = 0.8;
/** Shares of the account's budget, in percent, that trigger a notification once spent. */
const SPENT_PERCENTAGES = [50, 80, 100];

export function createAlarms(functions: DeployedFunctions, settings: Settings): void {
  const { tick, scoreRollout, enqueueEvaluation, recordEvaluation } = functions;
  const topic = createTopic(settings.alertEmail);
  const notify = { alarmActions: [topic.arn], okActions: [topic.arn], treatMissingData: "notBreaching" };
  for (const fn of [tick, scoreRollout, enqueueEvaluation, recordEvaluation]) createDeadLetterAlarm(fn, notify);
  createTickAlarm(tick, notify);
  createRunAlarms(tick, settings.stage, notify);
  createBudget(topic, settings.monthlyUsd);
}

/** Properties that every alarm shares. */
type Notify = Pick<aws.cloudwatch.MetricAlarmArgs, "alarmActions" | "okActions" | "treatMissingData">;

function createDeadLetterAlarm({ name, inbox }: EventFunction, notify: Notify): void {
  new aws.cloudwatch.MetricAlarm(`${name}DeadLetters`, {
    ...notify,
    alarmDescription: `Events for ${name} were abandoned after five deliveries, or did not reach its queue`,
    namespace: "AWS/SQS",
    metricName: "ApproximateNumberOfMessagesVisible",
    statistic: "Maximum",
    dimensions: { QueueName: queueName(inbox.dead) },
    period: 300,
    evaluationPeriods: 1,
    threshold: 0,
    comparisonOperator: "GreaterThanThreshold",
  });
}

function createTickAlarm(tick: EventFunction, notify: Notify): void {
  new aws.cloudwatch.MetricAlarm("TickFails", {
    ...notify,
    alarmDescription: "The scheduled tick has failed for five minutes; its log says why",
    namespace: "AWS/Lambda",
    metricName: "Errors",
    statistic: "Sum",
    dimensions: { FunctionName: tick.fn.name },
    period: 60,
    evaluationPeriods: 5,
    threshold: 1,
    comparisonOperator: "GreaterThanOrEqualToThreshold",
  });
}

function createRunAlarms(tick: EventFunction, stage: string, notify: Notify): void {
  const unserved = tickMetric("AgentsUnserved", { what: "pulse", value: "$.unserved" }, tick, stage);
  new aws.cloudwatch.MetricAlarm("StaleHeartbeat", {
    ...notify,
    alarmDescription: `An agent of a run has had no live worker for ${STALE_MINUTES} minutes`,
    namespace: NAMESPACE,
    metricName: unserved,
    statistic: "Minimum",
    period: 60,
    evaluationPeriods: STALE_MINUTES,
    threshold: 1,
    comparisonOperator: "GreaterThanOrEqualToThreshold",
  });
  createAlarmPerRun("StuckStep", tickMetric("RunIdleMinutes", ofRun("$.idleMinutes"), tick, stage), {
    ...notify,
    alarmDescription: `A run is under way, and for ${STUCK_MINUTES} minutes no rollout was scored and no version published`,
    threshold: STUCK_MINUTES,
  });
  createAlarmPerRun("RunSpend", tickMetric("RunSpent", ofRun("$.spent"), tick, stage), {
    ...notify,
    alarmDescription: `A run has spent ${100 * RUN_SPENT_SHARE}% of its budget; at 100%, it is halted`,
    threshold: RUN_SPENT_SHARE,
  });
}

/** One alarm with a time series per run: each run that reaches the threshold notifies, even while others are above it. */
function createAlarmPerRun(
  name: string,
  metric: string,
  args: Notify & Pick<aws.cloudwatch.MetricAlarmArgs, "alarmDescription" | "threshold">,
): void {
  const expression = `SELECT MAX("${metric}") FROM SCHEMA("${NAMESPACE}", run) GROUP BY run ORDER BY MAX() DESC`;
  new aws.cloudwatch.MetricAlarm(name, {
    ...args,
    metricQueries: [{ id: "run", expression, period: 300, returnData: true }],
    evaluationPeriods: 1,
    comparisonOperator: "GreaterThanOrEqualToThreshold",
  });
}

function createBudget(topic: sst.aws.SnsTopic, monthlyUsd: number): void {
  const thresholds = [
    ...SPENT_PERCENTAGES.map((threshold) => ({ notificationType: "ACTUAL", threshold })),
    { notificationType: "FORECASTED", threshold: 100 },
  ];
  new aws.budgets.Budget("Budget", {
    budgetType: "COST",
    timeUnit: "MONTHLY",
    limitUnit: "USD",
    limitAmount: String(monthlyUsd),
    notifications: thresholds.map((threshold) => ({
      ...threshold,
      comparisonOperator: "GREATER_THAN",
      thresholdType: "PERCENTAGE",
      subscriberSnsTopicArns: [topic.arn],
    })),
  });
}

/** Only alarms and the budget may publish to it. */
function createTopic(email: string | undefined): sst.aws.SnsTopic {
  const topic = new sst.aws.SnsTopic("Alarms");
  const account = aws.getCallerIdentityOutput().accountId;
  const policy = aws.iam.getPolicyDocumentOutput({
    statements: [
      {
        actions: ["sns:Publish"],
        resources: [topic.arn],
        principals: [{ type: "Service", identifiers: ["cloudwatch.amazonaws.com", "budgets.amazonaws.com"] }],
        conditions: [{ test: "StringEquals", variable: "aws:SourceAccount", values: [account] }],
      },
    ],
  });
  new aws.sns.TopicPolicy("AlarmsPolicy", { arn: topic.arn, policy: policy.json });
  if (email) new aws.sns.TopicSubscription("AlarmsEmail", { topic: topic.arn, protocol: "email", endpoint: email });
  return topic;
}

interface LoggedValue {
  /** The kind of the line, in its field `what`. */
  readonly what: string;
  readonly value: string;
  readonly dimensions?: Record<string, string>;
}

/** A value in the line that tick logs for each run. */
const ofRun = (value: string): LoggedValue => ({ what: "run", value, dimensions: { run: "$.run" } });

/**
 * A metric from a line that tick logs once a minute while runs are under way (functions/reconciling.ts). Returns its name, which contains
 * the stage.
 */
function tickMetric(name: string, { what, ...value }: LoggedValue, tick: EventFunction, stage: string): string {
  const metric = `${name}-${stage}`;
  new aws.cloudwatch.LogMetricFilter(name, {
    logGroupName: tick.log.name,
    pattern: `{ $.what = "${what}" }`,
    metricTransformation: { namespace: NAMESPACE, name: metric, ...value },
  });
  return metric;
}

const queueName = ({ nodes }: sst.aws.Queue) => nodes.queue.name;
