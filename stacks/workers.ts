/**
 * @file GPU workers on EC2: one Auto Scaling group per fleet, empty until tick sees a run that needs it. An instance finds that run in the store,
 * and terminates itself, without a replacement, when no run needs it (worker-boot.sh).
 */
/// <reference path="../.sst/platform/config.d.ts" />
import { readFileSync } from "node:fs";
import { type FleetSettings, refuseUnusable, SERVER_PORT, withServers } from "./fleet.ts";
import { createNetwork, type Network } from "./network.ts";
import { createRelease, type Release } from "./release.ts";
import { createWorkerSecrets, type WorkerKey, type WorkerSecrets } from "./secrets.ts";
import type { Settings } from "./settings.ts";
import type { Storage } from "./storage.ts";
import { workerStatements } from "./worker-policy.ts";

export interface DeployedFleet extends FleetSettings {
  readonly group: aws.autoscaling.Group;
}

/** The port for delegations between workers. */
const DELEGATION_PORT = 7800;
/** A version with long-term support, on which `npm test` passes. */
const NODE_VERSION = "26.12.1";
/** Holds the id of AWS's latest machine image with the driver and CUDA, but no framework. Each deployment looks it up. */
const IMAGE_PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id";
const DISK_GB = 150;

interface Common {
  readonly storage: Storage;
  readonly network: Network;
  readonly release: Release;
  readonly secrets: WorkerSecrets;
  readonly image: $util.Output<string>;
}

/** Empty if the settings disable fleets. */
export async function createWorkers(
  storage: Storage,
  settings: Settings,
  wanted: readonly FleetSettings[],
  judge: sst.Secret,
): Promise<readonly DeployedFleet[]> {
  if (!settings.hasFleets) return [];
  const fleets = withServers(wanted, settings.servers);
  refuseUnusable(fleets);
  const common: Common = {
    storage,
    network: await createNetwork(DELEGATION_PORT),
    release: createRelease(storage.bucket),
    secrets: createWorkerSecrets(settings.stage, judge),
    image: aws.ssm.getParameterOutput({ name: IMAGE_PARAMETER }).value,
  };
  return fleets.map((fleet) => ({ ...fleet, group: createFleet(fleet, common) }));
}

function createFleet(fleet: FleetSettings, common: Common): aws.autoscaling.Group {
  const { storage, network, image } = common;
  const title = `Fleet${fleet.name[0]?.toUpperCase()}${fleet.name.slice(1)}`;
  const role = new aws.iam.Role(`${title}Role`, {
    assumeRolePolicy: aws.iam.assumeRolePolicyForPrincipal({ Service: "ec2.amazonaws.com" }),
  });
  const profile = new aws.iam.InstanceProfile(`${title}Profile`, { role: role.name });
  const template = new aws.ec2.LaunchTemplate(`${title}Template`, {
    imageId: image,
    iamInstanceProfile: { arn: profile.arn },
    // A public address is needed to reach npm; the security group admits only other workers.
    vpcSecurityGroupIds: [network.securityGroup.id],
    // IMDSv2 only, and only from the instance itself.
    metadataOptions: { httpEndpoint: "enabled", httpTokens: "required", httpPutResponseHopLimit: 1 },
    instanceInitiatedShutdownBehavior: "terminate",
    blockDeviceMappings: [
      {
        deviceName: "/dev/sda1",
        ebs: { volumeSize: DISK_GB, volumeType: "gp3", encrypted: "true", deleteOnTermination: "true" },
      },
    ],
    userData: bootScript(fleet, common).apply((script) => Buffer.from(script).toString("base64")),
    updateDefaultVersion: true,
  });
  const group = new aws.autoscaling.Group(
    title,
    {
      minSize: 0,
      maxSize: fleet.max,
      vpcZoneIdentifiers: network.subnets.map(({ id }) => id),
      // Starts a replacement as soon as a spot instance is at risk.
      capacityRebalance: true,
      // Otherwise AWS would terminate working instances to balance the zones again whenever an idle one has terminated itself.
      suspendedProcesses: ["AZRebalance"],
      mixedInstancesPolicy: {
        launchTemplate: {
          launchTemplateSpecification: {
            launchTemplateId: template.id,
            version: template.latestVersion.apply(String),
          },
          overrides: fleet.instanceTypes.map((instanceType) => ({ instanceType })),
        },
        instancesDistribution: {
          onDemandBaseCapacity: fleet.onDemand,
          onDemandPercentageAboveBaseCapacity: 0,
          onDemandAllocationStrategy: "prioritized",
          spotAllocationStrategy: "price-capacity-optimized",
        },
      },
      tags: [{ key: "Name", value: `mgrpo ${$app.stage} ${fleet.name}`, propagateAtLaunch: true }],
    },
    // Tick sets the capacity; a deployment does not change it.
    { ignoreChanges: ["desiredCapacity"] },
  );
  new aws.iam.RolePolicy(`${title}Policy`, {
    role: role.name,
    policy: rolePolicy(fleet, storage, common.secrets, group.arn).json,
  });
  return group;
}

function rolePolicy(
  fleet: FleetSettings,
  { table, bucket }: Storage,
  secrets: WorkerSecrets,
  group: $util.Output<string>,
) {
  const keys = secrets.keys.filter((key) => key.isFor(fleet));
  const arns = {
    table: table.arn,
    bucket: bucket.arn,
    group,
    secrets: $resolve([secrets.token.arn, ...keys.map(({ parameter }) => parameter.arn)]),
  };
  return aws.iam.getPolicyDocumentOutput({
    statements: $resolve(arns).apply((known) => workerStatements(fleet, known)),
  });
}

/** `<variable>=<parameter>`, as worker-boot.sh reads a key. */
const pairOf = ({ variable, parameter }: WorkerKey) => $interpolate`${variable}=${parameter.name}`;

/** worker-boot.sh, preceded by its settings. */
function bootScript(fleet: FleetSettings, { storage, release, secrets }: Common): $util.Output<string> {
  const script = readFileSync("stacks/worker-boot.sh", "utf8");
  const settings = {
    FLEET: fleet.name,
    GPU: fleet.gpu ? "yes" : "no",
    PORT: String(DELEGATION_PORT),
    SERVER_MODEL: fleet.server ?? "",
    SERVER_PORT: String(SERVER_PORT),
    NODE_VERSION,
    ARCHIVE: release.archive.key,
    ARCHIVE_SHA256: release.archive.sha256,
    LOCK: release.lock.key,
    LOCK_SHA256: release.lock.sha256,
    AWS_REGION: aws.getRegionOutput().region,
    MGRPO_TABLE: storage.table.name,
    MGRPO_BUCKET: storage.bucket.name,
    TOKEN_PARAMETER: secrets.token.name,
    KEYS: $resolve(secrets.keys.filter((key) => key.isFor(fleet)).map(pairOf)).apply((pairs) => pairs.join(" ")),
  };
  return $resolve(settings).apply((values) => {
    const lines = Object.entries(values).map(([name, value]) => `${name}='${value}'\n`);
    return `#!/bin/bash\n${lines.join("")}${script.replace(/^#!.*\n/, "")}`;
  });
}
