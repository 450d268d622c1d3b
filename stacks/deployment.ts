/**
 * @file The deployment's record in its table, through which launch, tick and the instances find the bucket, the schedule and the fleets. Its
 * shape is in core/contracts/deployment.ts. It is written last: a run of a release can be launched only once all of that release is deployed.
 */
/// <reference path="../.sst/platform/config.d.ts" />

import { checkoutRelease } from "./archive.ts";
import { SERVER_POLICY } from "./fleet.ts";
import type { DeployedFunctions } from "./functions.ts";
import type { TickSchedule } from "./schedule.ts";
import type { Storage } from "./storage.ts";
import type { DeployedFleet } from "./workers.ts";

export function describeDeployment(
  { table, bucket }: Storage,
  schedule: TickSchedule,
  fleets: readonly DeployedFleet[],
  functions: DeployedFunctions,
): void {
  const release = checkoutRelease();
  const deployment = $jsonStringify({
    release,
    bucket: bucket.name,
    clockRule: schedule.rule.name,
    fleets: fleets.map(({ name, agent, roles, max, group, server }) => ({
      name,
      agent,
      max,
      release,
      roles: roles.split(","),
      group: group.name,
      ...(server !== undefined && { policy: SERVER_POLICY }),
    })),
  });
  const item = $jsonStringify({ pk: { S: "DEPLOYMENT" }, sk: { S: "DEPLOYMENT" }, deployment: { S: deployment } });
  const { startRun, tick, scoreRollout, enqueueEvaluation, recordEvaluation } = functions;
  const all = [startRun, tick, scoreRollout, enqueueEvaluation, recordEvaluation];
  new aws.dynamodb.TableItem(
    "Deployment",
    { tableName: table.name, hashKey: "pk", rangeKey: "sk", item },
    // The record names the groups, so it also comes after their launch templates and the archive.
    { dependsOn: all.map(({ fn }) => fn.nodes.function) },
  );
}
