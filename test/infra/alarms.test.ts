/** @file The alarms, who receives them, and the metrics that are read from tick's log line. */
import { expect, inject, test } from "vitest";
import { metricsLine } from "../../functions/run-overview.ts";
import { readSettings } from "../../stacks/settings.ts";
import { ofKind, statementsOf, theOne } from "./resources.ts";

const prod = inject("prod");
const TOPIC = "arn:aws:Topic:us-east-1:123456789012:AlarmsTopic";
const alarms = ofKind(prod, "MetricAlarm");

test("every alarm and the budget notify the topic, and the topic a person", () => {
  expect(alarms.map(({ name }) => name).sort()).toEqual([
    ...["EnqueueEvaluationDeadLetters", "RecordEvaluationDeadLetters", "RunSpend", "ScoreRolloutDeadLetters"],
    ...["StaleHeartbeat", "StuckStep", "TickDeadLetters", "TickFails"],
  ]);
  for (const { inputs } of alarms) expect(inputs.alarmActions).toEqual([TOPIC]);
  expect(theOne(ofKind(prod, "TopicSubscription"), "AlarmsEmail").inputs).toMatchObject({
    ...{ protocol: "email", endpoint: "ops@example.org", topic: TOPIC },
  });
  const [policy] = statementsOf(prod).filter(({ of }) => of === "AlarmsPolicy");
  expect(policy?.statement.conditions).toMatchObject([{ variable: "aws:SourceAccount" }]);
  const [budget] = ofKind(prod, "Budget");
  expect(budget?.inputs).toMatchObject({ limitAmount: "100", limitUnit: "USD", timeUnit: "MONTHLY" });
  for (const notification of budget?.inputs.notifications ?? [])
    expect(notification.subscriberSnsTopicArns).toEqual([TOPIC]);
  // AWS allows five at most.
  expect(budget?.inputs.notifications.length).toBeLessThanOrEqual(5);
});

test("one message in a dead-letter queue raises the alarm", () => {
  for (const { name, inputs } of alarms.filter(({ name }) => name.endsWith("DeadLetters"))) {
    expect(inputs).toMatchObject({ threshold: 0, comparisonOperator: "GreaterThanThreshold", evaluationPeriods: 1 });
    const queue = theOne(ofKind(prod, "Queue"), `${name.replace("Letters", "")}Queue`).inputs;
    expect(inputs.dimensions.QueueName).toBe(queue.name);
  }
});

test("the metrics of runs come from tick's own line", () => {
  const line = JSON.parse(metricsLine({ running: 2, unserved: 1, spent: 0.5, idleMinutes: 3 }) ?? "");
  const filters = ofKind(prod, "LogMetricFilter").map(({ inputs }) => inputs);
  for (const { pattern, logGroupName, metricTransformation } of filters) {
    const [, field = "", value] = /^\{ \$\.(\w+) = "(\w+)" \}$/.exec(pattern) ?? [];
    expect(line[field]).toBe(value);
    expect(logGroupName).toBe(theOne(ofKind(prod, "Function"), "TickFunction").inputs.loggingConfig.logGroup);
    expect(typeof line[metricTransformation.value.replace("$.", "")]).toBe("number");
  }
  const published = filters.map(({ metricTransformation: { name } }) => name);
  const used = JSON.stringify(alarms.map(({ inputs }) => inputs));
  for (const name of published) expect(used).toContain(`"metricName":"${name}"`);
  expect(metricsLine({ running: 0, unserved: 0, spent: 0, idleMinutes: 0 })).toBeUndefined();
});

test("a stuck step: one of the running runs had no outcome and no version for half an hour", () => {
  expect(theOne(alarms, "StuckStep").inputs).toMatchObject({
    statistic: "Maximum",
    evaluationPeriods: 1,
    threshold: 30,
  });
});

test("nonsensical settings are refused before anything is created", () => {
  expect(() => readSettings({ stage: "prod", protect: true }, {})).toThrow(/MGRPO_ALERT_EMAIL/);
  expect(() => readSettings({ stage: "dev" }, { MGRPO_MONTHLY_USD: "much" })).toThrow(/MGRPO_MONTHLY_USD=much/);
  expect(() => readSettings({ stage: "dev" }, { MGRPO_FLEETS: "main" })).toThrow(/MGRPO_FLEETS=main/);
  expect(readSettings({ stage: "dev" }, {})).toMatchObject({ keep: false, monthlyUsd: 100, fleets: true });
});
