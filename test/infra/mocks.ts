/** @file Mocked responses of AWS: a created resource with its ARN and URL, and the few look-ups that the stacks make. */
import type { Inputs, Resource } from "./resources.ts";

export const MOCK_ACCOUNT = "123456789012";
export const MOCK_REGION = "us-east-1";
const LOCAL_ZONES = ["us-east-1-atl-1a", "us-east-1-bos-1a", "us-east-1-chi-1a", "us-east-1-dfw-1a"];

/** The id and state of a resource that was just created. */
export function mockResource({ type, name, inputs }: Resource) {
  const kind = type.split("/").at(-1)?.split(":").at(-1) ?? type;
  const state: Record<string, unknown> = {
    arn: type.startsWith("aws:s3/bucket:")
      ? `arn:aws:s3:::${name}`
      : `arn:aws:${kind}:${MOCK_REGION}:${MOCK_ACCOUNT}:${name}`,
    name,
    url: `https://sqs.${MOCK_REGION}.amazonaws.com/${MOCK_ACCOUNT}/${name}`,
    bucket: name,
    latestVersion: 1,
    // Random values, from which SST makes names.
    b64Std: "AAAA",
    base64: "AAAA",
    ...(inputs as Partial<Inputs>),
  };
  if (kind === "Queue") state["arn"] = `arn:aws:sqs:${MOCK_REGION}:${MOCK_ACCOUNT}:${state["name"]}`;
  return { id: kind === "Queue" ? state["url"] : `${state["bucket"] === name ? state["name"] : name}`, state };
}

/** The response to a look-up; an unknown one returns its inputs. */
export function mockCall({ token, inputs }: { token: string; inputs: Record<string, unknown> }): object {
  const known: Record<string, object> = {
    "aws:index/getRegion:getRegion": { region: MOCK_REGION, name: MOCK_REGION, id: MOCK_REGION },
    "aws:index/getPartition:getPartition": { partition: "aws", dnsSuffix: "amazonaws.com" },
    "aws:index/getCallerIdentity:getCallerIdentity": { accountId: MOCK_ACCOUNT, arn: "arn", userId: "user" },
    "aws:iam/getPolicyDocument:getPolicyDocument": {
      json: JSON.stringify({ Version: "2012-10-17", Statement: inputs["statements"] ?? [] }),
    },
    "aws:cloudwatch/getEventBus:getEventBus": {
      arn: `arn:aws:events:${MOCK_REGION}:${MOCK_ACCOUNT}:event-bus/${inputs["name"]}`,
    },
    "aws:ssm/getParameter:getParameter": { value: "ami-0123456789abcdef0" },
    // As in an account that has opted into four Local Zones.
    "aws:index/getAvailabilityZones:getAvailabilityZones": {
      names: [...(inputs["filters"] ? [] : LOCAL_ZONES), "us-east-1a", "us-east-1b", "us-east-1c"],
    },
  };
  return { ...inputs, ...known[token] };
}
