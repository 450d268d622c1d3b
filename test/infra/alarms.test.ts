/** @file The alarms, who receives them, the metrics that are read from tick's log lines, and the settings that a deployment refuses. */
import { expect, inject, test } from "vitest";
import { metricsLines } from "../../functions/reconciling.ts";
import { readSettings } from "../../stacks/settings.ts";
import { ofKind, resourceNamed, statementsOf } from "./resources.ts";

const prod = inject("prod");
const TOPIC = "arn:aws:Topic:us-east-1:123456789012:AlarmsTopic";
const alarms = ofKind(prod, "MetricAlarm");

test("every alarm and the budget notify the topic, and the topic e-mails a person", () => {
  expect(alarms.map(({ name }) => name).sort()).toEqual([
    ...["EnqueueEvaluationDeadLetters", "RecordEvaluationDeadLetters", "RunSpend", "ScoreRolloutDeadLetters"],
    ...["StaleHeartbeat", "StuckStep", "TickDeadLetters", "TickFails"],
  ]);
  for (const { inputs } of alarms) expect(inputs.alarmActions).toEqual([TOPIC]);
  expect(resourceNamed(ofKind(prod, "TopicSubscription"), "AlarmsEmail").inputs).toMatchObject({
    ...{ protocol: "email", endpoint: "ops@example.org", topic: TOPIC },
  });
  const [policy] = statementsOf(prod).filter(({ of }) => of === "AlarmsPolicy");
  expect(policy?.statement.conditions).toMatchObject([{ variable: "aws:SourceAccount" }]);
  const [budget] = ofKind(prod, "Budget");
  expect(budget?.inputs).toMatchObject({ limitAmount: "100", limitUnit: "USD", timeUnit: "MONTHLY" });
  const notifications = budget?.inputs.notifications ?? [];
  for (const { subscriberSnsTopicArns } of notifications) expect(subscriberSnsTopicArns).toEqual([TOPIC]);
  expect(notifications.length).toBeGreaterThan(0);
  // AWS allows at most five per budget.
  expect(notifications.length).toBeLessThanOrEqual(5);
});

test("a single message in a dead-letter queue raises its alarm", () => {
  const ofQueues = alarms.filter(({ name }) => name.endsWith("DeadLetters"));
  expect(ofQueues.length).toBeGreaterThan(0);
  for (const { name, inputs } of ofQueues) {
    expect(inputs).toMatchObject({ threshold: 0, comparisonOperator: "GreaterThanThreshold", evaluationPeriods: 1 });
    expect(inputs).toMatchObject({ metricName: "ApproximateNumberOfMessagesVisible", statistic: "Maximum" });
    const queue = resourceNamed(ofKind(prod, "Queue"), `${name.replace("Letters", "")}Queue`).inputs;
    expect(inputs.dimensions.QueueName).toBe(queue.name);
  }
});

test("the metrics of runs come from tick's own log lines", () => {
  const logged = metricsLines({
    unserved: 1,
    runs: [
      { run: "a", idleMinutes: 3, spent: 0.5 },
      { run: "b", idleMinutes: 40, spent: 0 },
    ],
  });
  const lines = logged.map((line) => JSON.parse(line));
  const filters = ofKind(prod, "LogMetricFilter").map(({ inputs }) => inputs);
  for (const { pattern, logGroupName, metricTransformation } of filters) {
    const [, field = "", value] = /^\{ \$\.(\w+) = "(\w+)" \}$/.exec(pattern) ?? [];
    const matched = lines.filter((line) => line[field] === value);
    const dimensions = metricTransformation.dimensions ?? {};
    expect(matched).toHaveLength("run" in dimensions ? 2 : 1);
    expect(logGroupName).toBe(resourceNamed(ofKind(prod, "Function"), "TickFunction").inputs.loggingConfig.logGroup);
    for (const line of matched) {
      expect(typeof line[metricTransformation.value.replace("$.", "")]).toBe("number");
      for (const source of Object.values<string>(dimensions)) expect(line[source.replace("$.", "")]).toMatch(/^[ab]$/);
    }
  }
  const published = filters.map(({ metricTransformation: { name } }) => name);
  expect(published).toHaveLength(3);
  const used = JSON.stringify(alarms.map(({ inputs }) => inputs));
  for (const name of published) expect(used).toContain(name);
  expect(metricsLines({ unserved: 0, runs: [] })).toEqual([]);
});

test.each([
  ["StuckStep", "RunIdleMinutes", "has had no new score or version for 30 minutes", 30],
  ["RunSpend", "RunSpent", "has spent 80% of its budget", 0.8],
])("%s alarms on %s, separately for each run that %s", (name, metric, _what, threshold) => {
  const { inputs } = resourceNamed(alarms, name);
  const comparisonOperator = "GreaterThanOrEqualToThreshold";
  expect(inputs).toMatchObject({ evaluationPeriods: 1, threshold, comparisonOperator });
  const [query, ...others] = inputs.metricQueries;
  expect(others).toEqual([]);
  const logged = resourceNamed(ofKind(prod, "LogMetricFilter"), metric).inputs.metricTransformation;
  // CloudWatch alarms on every time series that the query returns: one per value of `run`.
  const from = `SELECT MAX("${logged.name}") FROM SCHEMA("${logged.namespace}", run) GROUP BY run`;
  expect(query).toMatchObject({ returnData: true, expression: `${from} ORDER BY MAX() DESC` });
  expect(Object.keys(logged.dimensions ?? {})).toEqual(["run"]);
});

test("invalid settings are refused, and the error names the variable; an unprotected stage needs no variables", () => {
  expect(() => readSettings({ stage: "prod", protect: true }, {})).toThrow(/MGRPO_ALERT_EMAIL/);
  expect(() => readSettings({ stage: "dev" }, { MGRPO_MONTHLY_USD: "much" })).toThrow(/MGRPO_MONTHLY_USD=much/);
  expect(() => readSettings({ stage: "dev" }, { MGRPO_FLEETS: "main" })).toThrow(/MGRPO_FLEETS=main/);
  expect(readSettings({ stage: "dev" }, {})).toMatchObject({ keep: false, monthlyUsd: 100, hasFleets: true });
});
