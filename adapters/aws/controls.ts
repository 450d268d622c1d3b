/** @file What a deployment's functions control: the capacity of Auto Scaling groups, the schedule of ticks, and the redelivery of events. */
import {
  AutoScalingClient,
  DescribeAutoScalingGroupsCommand,
  SetDesiredCapacityCommand,
} from "@aws-sdk/client-auto-scaling";
import {
  DescribeRuleCommand,
  DisableRuleCommand,
  EnableRuleCommand,
  EventBridgeClient,
  PutEventsCommand,
} from "@aws-sdk/client-eventbridge";
import type { Deployment } from "../../core/contracts/deployment.ts";
import { REDELIVERY_SOURCE } from "../../core/contracts/messages.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Capacities, Controls, ObjectEvents, ScheduleSwitch } from "../../core/ports.ts";
import { silenceNodeVersionWarning } from "./clients.ts";

/** AWS's limits per request. */
const MAX_GROUPS = 100;
const MAX_EVENTS = 10;

/**
 * Region, endpoints and keys are what AWS's SDKs find for this process, as for its store. The clients are created for the first deployment and
 * shared by all.
 */
export function awsControls(): (deployment: Pick<Deployment, "bucket" | "clockRule">) => Controls {
  let clients: { readonly autoScaling: AutoScalingClient; readonly eventBridge: EventBridgeClient } | undefined;
  return ({ bucket, clockRule }) => {
    silenceNodeVersionWarning();
    clients ??= { autoScaling: new AutoScalingClient({}), eventBridge: new EventBridgeClient({}) };
    return {
      capacities: openCapacities(clients.autoScaling),
      scheduleSwitch: openScheduleSwitch(clients.eventBridge, clockRule),
      events: openEvents(clients.eventBridge, bucket),
    };
  };
}

function openCapacities(client: AutoScalingClient): Capacities {
  return {
    read: (groups) =>
      translated(`read the capacity of ${groups.join(", ")}`, async () => {
        const command = new DescribeAutoScalingGroupsCommand({
          AutoScalingGroupNames: [...groups],
          MaxRecords: MAX_GROUPS,
        });
        const { AutoScalingGroups: described = [] } = await client.send(command);
        return new Map(described.map((group) => [group.AutoScalingGroupName ?? "", group.DesiredCapacity ?? 0]));
      }),
    write: (group, instances) =>
      translated(`set the capacity of '${group}' to ${instances}`, async () => {
        await client.send(
          new SetDesiredCapacityCommand({
            AutoScalingGroupName: group,
            DesiredCapacity: instances,
            HonorCooldown: false,
          }),
        );
      }),
  };
}

function openScheduleSwitch(client: EventBridgeClient, rule: string): ScheduleSwitch {
  return {
    isOn: () =>
      translated(`read the schedule '${rule}'`, async () => {
        const { State } = await client.send(new DescribeRuleCommand({ Name: rule }));
        return State === "ENABLED";
      }),
    turn: (to) =>
      translated(`turn the schedule '${rule}' ${to}`, async () => {
        if (to === "on") await client.send(new EnableRuleCommand({ Name: rule }));
        else await client.send(new DisableRuleCommand({ Name: rule }));
      }),
  };
}

/** Sent to the account's default bus, like S3's own events. */
function openEvents(client: EventBridgeClient, bucket: string): ObjectEvents {
  const eventOf = (key: string) => ({
    Source: REDELIVERY_SOURCE,
    DetailType: "Object Created",
    Detail: JSON.stringify({ bucket: { name: bucket }, object: { key } }),
  });
  return {
    redeliver: (keys) =>
      translated(`redeliver ${keys.length} object events of bucket '${bucket}'`, async () => {
        for (let i = 0; i < keys.length; i += MAX_EVENTS) {
          const command = new PutEventsCommand({ Entries: keys.slice(i, i + MAX_EVENTS).map(eventOf) });
          const { FailedEntryCount = 0, Entries = [] } = await client.send(command);
          const failed = Entries.find(({ ErrorCode }) => ErrorCode !== undefined);
          if (FailedEntryCount > 0)
            throw new Error(`EventBridge refused ${FailedEntryCount} of ${Entries.length}: ${failed?.ErrorMessage}`);
        }
      }),
  };
}

/** Every error is retryable: deploying again may grant a missing permission. */
async function translated<T>(operation: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    const { name, message } = cause as Error;
    throw new MgrpoError(
      "deployment-unreachable",
      `${operation}: the call to AWS failed (${name}: ${message}); check the credentials' permissions and AWS_REGION, or deploy again`,
      { cause, retryable: true },
    );
  }
}
