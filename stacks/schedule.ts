/**
 * @file The schedule of ticks: an EventBridge rule that calls tick every minute while it is enabled. Starting or resuming a run enables
 * it, and tick disables it when no run needs it (functions/reconciling.ts), so a deployment does not change its state. It is a rule because enabling or
 * disabling a schedule of EventBridge Scheduler requires iam:PassRole for its role.
 */
/// <reference path="../.sst/platform/config.d.ts" />
import { SCHEDULE } from "./sizes.ts";

export interface TickSchedule {
  readonly rule: aws.cloudwatch.EventRule;
}

export function createSchedule(): TickSchedule {
  const rule = new aws.cloudwatch.EventRule(
    "Clock",
    { scheduleExpression: SCHEDULE.rate, state: "DISABLED" },
    { ignoreChanges: ["state"] },
  );
  return { rule };
}

/** Lets the rule call tick. Lambda retries a failed call twice, even if the rule has been disabled since. */
export function connectSchedule({ rule }: TickSchedule, fn: sst.aws.Function): void {
  new aws.lambda.Permission("ClockPermission", {
    action: "lambda:InvokeFunction",
    principal: "events.amazonaws.com",
    function: fn.name,
    sourceArn: rule.arn,
  });
  new aws.cloudwatch.EventTarget("ClockTarget", { rule: rule.name, arn: fn.arn });
}
