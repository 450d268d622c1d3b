/**
 * @file What rings, and whom it tells. docs/deploy.md says for each what to do.
 *
 *     <Function>DeadLetters   an event was given up after five deliveries
 *     TickFails               the clock's tick fails: nothing is repaired any more
 *     StuckStep               a run is under way, and for half an hour no rollout ended and no version came
 *     StaleHeartbeat          an agent of a run has no live worker, for ten minutes
 *     RunSpend                a run has spent most of its own budget, at whose end it is halted
 *     budget                  the account's month costs more than planned
 */
/// <reference path="../.sst/platform/config.d.ts" />
import type { Functions, Woken } from "./functions.ts";
import type { Settings } from "./settings.ts";

const NAMESPACE = "mgrpo";
const STUCK_MINUTES = 30;
const STALE_MINUTES = 10;
/** The share of a run's budget, of hours or of dollars, that is told once it is spent. */
const RUN_SPENT = 0.8;
/** Shares of the budget, in per cent, that are told once they are spent. */
const SPENT = [50, 80, 100];

export function createAlarms(functions: Functions, { stage, alertEmail, monthlyUsd }: Settings): void {
  const { tick, scoreRollout, enqueueEvaluation, recordEvaluation } = functions;
  const topic = createTopic(alertEmail);
  const common = { alarmActions: [topic.arn], okActions: [topic.arn], treatMissingData: "notBreaching" };

  for (const { name, inbox } of [tick, scoreRollout, enqueueEvaluation, recordEvaluation]) {
    new aws.cloudwatch.MetricAlarm(`${name}DeadLetters`, {
      ...common,
      alarmDescription: `Events for ${name} were given up after five deliveries`,
      ...{ namespace: "AWS/SQS", metricName: "ApproximateNumberOfMessagesVisible", statistic: "Maximum" },
      dimensions: { QueueName: queueName(inbox.dead) },
      ...{ period: 300, evaluationPeriods: 1, threshold: 0, comparisonOperator: "GreaterThanThreshold" },
    });
  }
  new aws.cloudwatch.MetricAlarm("TickFails", {
    ...common,
    alarmDescription: "The tick of the clock fails: nothing is repaired until it succeeds",
    ...{ namespace: "AWS/Lambda", metricName: "Errors", statistic: "Sum" },
    dimensions: { FunctionName: tick.fn.name },
    ...{ period: 60, evaluationPeriods: 5, threshold: 1, comparisonOperator: "GreaterThanOrEqualToThreshold" },
  });

  const running = pulseMetric("RunsRunning", "$.running", tick, stage);
  const unserved = pulseMetric("AgentsUnserved", "$.unserved", tick, stage);
  const spent = pulseMetric("RunSpent", "$.spent", tick, stage);
  new aws.cloudwatch.MetricAlarm("StaleHeartbeat", {
    ...common,
    alarmDescription: `An agent of a run has had no live worker for ${STALE_MINUTES} minutes`,
    ...{ namespace: NAMESPACE, metricName: unserved, statistic: "Minimum" },
    ...{ period: 60, evaluationPeriods: STALE_MINUTES, threshold: 1 },
    comparisonOperator: "GreaterThanOrEqualToThreshold",
  });
  new aws.cloudwatch.MetricAlarm("RunSpend", {
    ...common,
    alarmDescription: `A run has spent ${100 * RUN_SPENT} % of its budget; when all of it is spent, the run is halted`,
    ...{ namespace: NAMESPACE, metricName: spent, statistic: "Maximum" },
    ...{ period: 60, evaluationPeriods: 1, threshold: RUN_SPENT },
    comparisonOperator: "GreaterThanOrEqualToThreshold",
  });
  const sent = ({ inbox }: Woken) => ({
    ...{ namespace: "AWS/SQS", metricName: "NumberOfMessagesSent", stat: "Sum", period: 300 },
    dimensions: { QueueName: queueName(inbox.queue) },
  });
  new aws.cloudwatch.MetricAlarm("StuckStep", {
    ...common,
    alarmDescription: `A run is under way, and for ${STUCK_MINUTES} minutes no rollout ended and no version came`,
    metricQueries: [
      { id: "running", metric: { namespace: NAMESPACE, metricName: running, stat: "Minimum", period: 300 } },
      { id: "scored", metric: sent(scoreRollout) },
      { id: "published", metric: sent(tick) },
      {
        ...{ id: "stuck", label: "runs without progress", returnData: true },
        expression: "IF(FILL(running, 0) > 0 AND FILL(scored, 0) + FILL(published, 0) == 0, 1, 0)",
      },
    ],
    ...{ evaluationPeriods: STUCK_MINUTES / 5, threshold: 1, comparisonOperator: "GreaterThanOrEqualToThreshold" },
  });

  new aws.budgets.Budget("Budget", {
    ...{ budgetType: "COST", timeUnit: "MONTHLY", limitUnit: "USD", limitAmount: String(monthlyUsd) },
    notifications: [
      ...SPENT.map((threshold) => ({ notificationType: "ACTUAL", threshold })),
      { notificationType: "FORECASTED", threshold: 100 },
    ].map((notification) => ({
      ...notification,
      ...{ comparisonOperator: "GREATER_THAN", thresholdType: "PERCENTAGE", subscriberSnsTopicArns: [topic.arn] },
    })),
  });
}

/** Where alarms and the budget speak, and nobody else. */
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

/** A metric from the line that tick logs once a minute while runs are under way (functions/run-overview.ts). Its name, the stage in it. */
function pulseMetric(name: string, value: string, tick: Woken, stage: string): string {
  const metric = `${name}-${stage}`;
  new aws.cloudwatch.LogMetricFilter(name, {
    logGroupName: tick.log.name,
    pattern: '{ $.what = "pulse" }',
    metricTransformation: { namespace: NAMESPACE, name: metric, value },
  });
  return metric;
}

const queueName = ({ nodes }: sst.aws.Queue) => nodes.queue.name;
