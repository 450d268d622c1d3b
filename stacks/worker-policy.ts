/**
 * @file What AWS lets a fleet's instances do: read their deployment's table; list its bucket, and read the objects of runs, base models and the
 * release; write records and objects of runs, and their logs; read their secrets; and terminate instances of their own group. Policies are made
 * before any run: in the key of a version, they can name the agent, while the run is a wildcard; of a record, they can match the partition key,
 * but not the sort key or a value.
 */
import type { FleetSettings } from "./fleet.ts";

export interface WorkerArns {
  readonly table: string;
  readonly bucket: string;
  /** The Auto Scaling group. */
  readonly group: string;
  readonly secrets: readonly string[];
}

export interface PolicyStatement {
  readonly effect?: "Allow" | "Deny";
  readonly actions: string[];
  readonly resources: string[];
  readonly conditions?: { readonly test: string; readonly variable: string; readonly values: string[] }[];
}

/** Limits a statement to the records of these partitions. */
export const withinPartitions = (partitions: readonly string[]) => [
  { test: "ForAllValues:StringLike", variable: "dynamodb:LeadingKeys", values: [...partitions] },
  // "For all" also holds for a request without keys.
  { test: "Null", variable: "dynamodb:LeadingKeys", values: ["false"] },
];

export function workerStatements(
  fleet: FleetSettings,
  { table, bucket, group, secrets }: WorkerArns,
): PolicyStatement[] {
  const dynamodb = (...names: string[]) => names.map((name) => `dynamodb:${name}`);
  const { partitions, kept, expiring } = writtenBy(fleet);
  const inRuns = (path: string) => `${bucket}/runs/*/${path}`;
  return [
    { actions: dynamodb("GetItem", "BatchGetItem", "Query"), resources: [table] },
    {
      // Excludes the DEPLOYMENT record and the lists of runs.
      actions: dynamodb("PutItem", "UpdateItem"),
      resources: [table],
      conditions: withinPartitions(partitions),
    },
    { actions: ["s3:GetObject"], resources: ["runs", "releases", "models"].map((prefix) => `${bucket}/${prefix}/*`) },
    { actions: ["s3:PutObject", "s3:AbortMultipartUpload"], resources: [...kept, ...expiring].map(inRuns) },
    { actions: ["s3:PutObjectTagging"], resources: expiring.map(inRuns) },
    {
      // Objects are written once, with If-None-Match. Parts of an upload cannot carry that header; its completion does.
      effect: "Deny",
      actions: ["s3:PutObject"],
      resources: [`${bucket}/runs/*`],
      conditions: [
        { test: "Null", variable: "s3:if-none-match", values: ["true"] },
        { test: "Bool", variable: "s3:ObjectCreationOperation", values: ["true"] },
      ],
    },
    { actions: ["s3:ListBucket"], resources: [bucket] },
    { actions: ["s3:PutObject"], resources: [`${bucket}/logs/${fleet.name}/*`] },
    { actions: ["ssm:GetParameter"], resources: [...secrets] },
    { actions: ["autoscaling:TerminateInstanceInAutoScalingGroup"], resources: [group] },
  ];
}

interface Written {
  /** Partition keys of records. */
  readonly partitions: string[];
  /** Objects under `runs/<run>/`. Those that expire carry a tag. */
  readonly kept: string[];
  readonly expiring: string[];
}

/** What a fleet's workers write, by role (core/contracts/keys.ts). */
function writtenBy({ agent, roles }: FleetSettings): Written {
  const has = (role: string) => roles.split(",").includes(role);
  return {
    partitions: ["RUN#*", "GROUP#*", ...(has("eval") ? ["VERDICT#*"] : [])],
    kept: [
      "tools/*",
      ...(has("train") ? ["parts/*", `manifests/${agent}/*`] : []),
      ...(has("eval") ? ["verdicts/*"] : []),
    ],
    expiring: [
      "invocations/*",
      "telemetry/*/workers/*",
      ...(has("rollout") ? ["outcomes/*"] : []),
      ...(has("train") ? [`telemetry/*/tokens/${agent}.safetensors`] : []),
      // This also matches result.json, which does not expire.
      ...(has("eval") ? ["evaluations/*"] : []),
    ],
  };
}
