/** @file A deployment as data, and queries for its parts. */
import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

export interface Resource {
  readonly type: string;
  readonly name: string;
  readonly inputs: Inputs;
}

interface Metric {
  readonly period: number;
  readonly dimensions?: { readonly QueueName: string };
}

interface Rule {
  readonly id: string;
  readonly filter: object;
  readonly expiration?: object;
  readonly applyServerSideEncryptionByDefault: { readonly sseAlgorithm: string };
}

/** Inputs whose types the tests do not need. */
type Compared =
  | "alarmActions"
  | "assumeRolePolicy"
  | "availabilityZone"
  | "billingMode"
  | "deletionProtectionEnabled"
  | "desiredCapacity"
  | "eventSourceArn"
  | "forceDestroy"
  | "functionName"
  | "functionResponseTypes"
  | "hashKey"
  | "imageId"
  | "ingress"
  | "inlinePolicies"
  | "input"
  | "instanceInitiatedShutdownBehavior"
  | "keyName"
  | "logGroupName"
  | "managedPolicyArns"
  | "messageRetentionSeconds"
  | "metadataOptions"
  | "minSize"
  | "pointInTimeRecovery"
  | "policy"
  | "rangeKey"
  | "retentionInDays"
  | "serverSideEncryption"
  | "sqsManagedSseEnabled"
  | "suspendedProcesses"
  | "tableName"
  | "ttl"
  | "type"
  | "visibilityTimeoutSeconds"
  | "vpcEndpointType";

/** The inputs that tests inspect, of all resource types together. One that a resource lacks is undefined, whatever its type says. */
export interface Inputs extends Readonly<Record<Compared, unknown>> {
  readonly arn: string;
  readonly attributes: readonly { readonly type: string }[];
  readonly blockDeviceMappings: readonly { readonly ebs: object }[];
  readonly bucket: string;
  readonly dimensions: { readonly QueueName: string };
  readonly environment: {
    readonly variables: Readonly<Record<"MGRPO_TABLE" | "MGRPO_BUCKET" | "MGRPO_PROJECT", string>>;
  };
  readonly evaluationPeriods: number;
  readonly eventPattern: string;
  readonly item: string;
  readonly key: string;
  readonly loggingConfig: { readonly logGroup: string };
  readonly maxSize: number;
  readonly metricQueries: readonly { readonly metric?: Metric; readonly expression?: string }[];
  readonly metricTransformation: {
    readonly name: string;
    readonly namespace: string;
    readonly value: string;
    readonly dimensions?: Readonly<Record<string, string>>;
  };
  readonly mixedInstancesPolicy: {
    readonly instancesDistribution: {
      readonly onDemandBaseCapacity: number;
      readonly onDemandPercentageAboveBaseCapacity: number;
    };
    readonly launchTemplate: {
      readonly overrides: readonly object[];
      readonly launchTemplateSpecification: { readonly launchTemplateId: string };
    };
  };
  readonly name: string;
  readonly notifications: readonly { readonly subscriberSnsTopicArns: readonly string[] }[];
  readonly pattern: string;
  readonly redrivePolicy: string;
  readonly rules: readonly Rule[];
  readonly serviceName: string;
  readonly timeout: number;
  readonly userData: string;
}

export interface Deployment {
  readonly app: { readonly stage: string; readonly removal: string; readonly protect: boolean };
  readonly resources: readonly Resource[];
  /** Function id -> file of its handler. */
  readonly handlers: Readonly<Record<string, string>>;
  readonly outputs: Readonly<Record<string, unknown>>;
}

export interface Statement {
  readonly effect?: string;
  readonly actions: readonly string[];
  readonly resources: readonly string[];
  readonly principals?: readonly { readonly identifiers: readonly string[] }[];
  readonly conditions?: readonly {
    readonly test: string;
    readonly variable: string;
    readonly values: readonly string[];
  }[];
}

const ROOT = resolve(import.meta.dirname, "../..");

/** What `sst deploy --stage <stage>` would create with these variables set. Rejects if it fails, with the deployment's error in the message. */
export async function evaluate(stage: string, environment: Readonly<Record<string, string>>): Promise<Deployment> {
  const script = join(ROOT, "test/infra/evaluate.ts");
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", script, stage], {
    cwd: ROOT,
    env: { ...process.env, ...environment },
    maxBuffer: 1 << 26,
  });
  return JSON.parse(stdout) as Deployment;
}

/** `kind`: the type's last part, e.g. `Queue`. */
export const ofKind = ({ resources }: Deployment, kind: string): Resource[] =>
  resources.filter(({ type }) => type.startsWith("aws:") && type.endsWith(`:${kind}`));

export function resourceNamed(found: readonly Resource[], name: string): Resource {
  const [one, ...others] = found.filter((resource) => resource.name === name);
  if (!one || others.length > 0)
    throw new Error(`expected exactly one ${name} among ${found.map((resource) => resource.name).join(", ")}`);
  return one;
}

/** Every statement of every policy of an AWS resource, trust policies excepted, with the name of the resource. */
export function statementsOf(deployment: Deployment): { of: string; statement: Statement }[] {
  return deployment.resources.flatMap(({ name, type, inputs }) => {
    const inline = (inputs.inlinePolicies ?? []) as { policy?: string }[];
    const documents = [inputs.policy, ...inline.map(({ policy }) => policy)];
    if (!type.startsWith("aws:")) return [];
    return documents.filter(isText).flatMap((document) => {
      const { Statement } = JSON.parse(document) as { Statement: Statement[] };
      return Statement.map((statement) => ({ of: name, statement }));
    });
  });
}

const isText = (value: unknown): value is string => typeof value === "string";
