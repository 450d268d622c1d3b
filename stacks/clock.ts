/**
 * @file The clock: a rule of EventBridge that calls tick every minute while it is enabled. Launching a run enables it, tick disables it
 * when nothing is left to look after (functions/steering.ts), so a deployment leaves its state alone. A rule and no schedule
 * of EventBridge Scheduler: to switch that, one must be allowed to pass its role.
 */
/// <reference path="../.sst/platform/config.d.ts" />
import { CLOCK } from "./sizes.ts";

export interface Clock {
  readonly rule: aws.cloudwatch.EventRule;
}

export function createClock(): Clock {
  const rule = new aws.cloudwatch.EventRule(
    "Clock",
    { scheduleExpression: CLOCK.schedule, state: "DISABLED" },
    { ignoreChanges: ["state"] },
  );
  return { rule };
}

/** What it calls. Lambda repeats a call that failed twice, also while the clock is off. */
export function setClock({ rule }: Clock, fn: sst.aws.Function): void {
  new aws.lambda.Permission("ClockPermission", {
    ...{ action: "lambda:InvokeFunction", principal: "events.amazonaws.com" },
    ...{ function: fn.name, sourceArn: rule.arn },
  });
  new aws.cloudwatch.EventTarget("ClockTarget", { rule: rule.name, arn: fn.arn });
}
