/**
 * @file The fleets: empty by default, without ingress from the internet, with a worker's permissions and command line. Also the secrets, the deployment's
 * record and the release's archive.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, inject, onTestFinished, test } from "vitest";
import { parseDeployment } from "../../core/contracts/deployment.ts";
import { tableKeys } from "../../core/contracts/keys.ts";
import { WorkerEnvironment } from "../../gpu-workers/compose.ts";
import { release } from "../../gpu-workers/release.ts";
import { refuseOtherArchive } from "../../stacks/archive.ts";
import { refuseUnusable } from "../../stacks/fleet.ts";
import { SECRETS } from "./evaluations.ts";
import { ofKind, resourceNamed, statementsOf } from "./resources.ts";

const prod = inject("prod");
const serverless = inject("serverless");
const FLEETS = ["FleetMain", "FleetSearcher", "FleetEval"];
const groupOf = (fleet: string) => resourceNamed(ofKind(prod, "Group"), fleet).inputs;
const templateOf = (fleet: string) => resourceNamed(ofKind(prod, "LaunchTemplate"), `${fleet}Template`).inputs;
const bootOf = (fleet: string) => Buffer.from(templateOf(fleet).userData, "base64").toString();

test.each(FLEETS)("%s is empty until a run needs it, and a deployment never changes its capacity", (fleet) => {
  const group = groupOf(fleet);
  expect(group.minSize).toBe(0);
  expect(group.desiredCapacity).toBeUndefined();
  expect(group.maxSize).toBeGreaterThan(0);
  const { instancesDistribution, launchTemplate } = group.mixedInstancesPolicy;
  expect(instancesDistribution.onDemandPercentageAboveBaseCapacity).toBe(0);
  expect(instancesDistribution.onDemandBaseCapacity).toBeLessThan(group.maxSize);
  expect(launchTemplate.overrides.length).toBeGreaterThan(1);
  expect(launchTemplate.launchTemplateSpecification.launchTemplateId).toBe(`${fleet}Template`);
});

test.each(FLEETS)(
  "%s: AWS terminates no working instance to balance the zones after an idle one has terminated itself",
  (fleet) => {
    expect(groupOf(fleet).suspendedProcesses).toEqual(["AZRebalance"]);
  },
);

test.each(FLEETS)("%s: IMDSv2 only, encrypted disk, terminated on shutdown, AWS's image, no SSH key", (fleet) => {
  const template = templateOf(fleet);
  expect(template.metadataOptions).toMatchObject({ httpTokens: "required", httpPutResponseHopLimit: 1 });
  expect(template.blockDeviceMappings[0]?.ebs).toMatchObject({ encrypted: "true", deleteOnTermination: "true" });
  expect(template.instanceInitiatedShutdownBehavior).toBe("terminate");
  expect(template.imageId).toBe("ami-0123456789abcdef0");
  expect(template.keyName).toBeUndefined();
});

test("a fleet with a Tinker server is one on-demand instance, and the deployment's record has its agent's policy (tinker:…)", () => {
  const served = inject("served");
  const { maxSize, mixedInstancesPolicy } = resourceNamed(ofKind(served, "Group"), "FleetMain").inputs;
  expect([maxSize, mixedInstancesPolicy.instancesDistribution.onDemandBaseCapacity]).toEqual([1, 1]);
  const { item } = resourceNamed(ofKind(served, "TableItem"), "Deployment").inputs;
  const fleets = parseDeployment({ deployment: JSON.parse(item).deployment.S })?.fleets;
  const policies = fleets?.map(({ name, policy }) => [name, policy]);
  expect(policies).toEqual([
    ["main", "tinker:http://127.0.0.1:8000"],
    ["searcher", undefined],
    ["eval", undefined],
  ]);
  // The server adds no permission and no open port.
  const of = (deployment: typeof prod) => statementsOf(deployment).filter((one) => one.of === "FleetMainPolicy");
  const actions = (deployment: typeof prod) => of(deployment).flatMap(({ statement }) => statement.actions);
  expect(actions(served)).toEqual(actions(prod));
  expect(ofKind(served, "SecurityGroup")[0]?.inputs.ingress).toEqual(ofKind(prod, "SecurityGroup")[0]?.inputs.ingress);
});

test("only workers reach workers; no part of the network is billed while no instance runs", () => {
  const [group] = ofKind(prod, "SecurityGroup");
  expect(group?.inputs.ingress).toEqual([{ protocol: "tcp", fromPort: 7800, toPort: 7800, self: true }]);
  const endpoints = ofKind(prod, "VpcEndpoint").map(({ inputs }) => inputs);
  expect(endpoints.map(({ vpcEndpointType }) => vpcEndpointType)).toEqual(["Gateway", "Gateway"]);
  expect(endpoints.map(({ serviceName }) => serviceName.split(".").at(-1)).sort()).toEqual(["dynamodb", "s3"]);
  for (const kind of ["NatGateway", "Eip", "LoadBalancer", "PrivateDnsNamespace"])
    expect(ofKind(prod, kind)).toEqual([]);
});

test("workers run in the region's own zones, not in Local Zones", () => {
  const zones = ofKind(prod, "Subnet").map(({ inputs }) => inputs.availabilityZone);
  expect(zones).toEqual(["us-east-1a", "us-east-1b", "us-east-1c"]);
});

test.each(FLEETS)(
  "%s has only a worker's permissions: it reads no objects but runs, releases and models, and may terminate itself",
  (fleet) => {
    const statements = statementsOf(prod).filter(({ of }) => of === `${fleet}Policy`);
    const allowed = new Map(
      statements.flatMap(({ statement }) => statement.actions.map((action) => [action, statement.resources] as const)),
    );
    const records = ["BatchGetItem", "GetItem", "PutItem", "Query", "UpdateItem"];
    const dynamo = [...allowed.keys()].filter((action) => action.startsWith("dynamodb:"));
    expect(dynamo.sort()).toEqual(records.map((name) => `dynamodb:${name}`));
    expect(allowed.has("s3:DeleteObject")).toBe(false);
    const reading = statements.filter(({ statement }) => statement.actions.includes("s3:GetObject"));
    expect(reading.flatMap(({ statement }) => statement.resources)).toEqual(
      ["runs", "releases", "models"].map((prefix) => `arn:aws:s3:::ObjectsBucket/${prefix}/*`),
    );
    const keys = ["SearchKey", "ModelKey", "TinkerKey", "HubToken", ...(fleet === "FleetEval" ? ["JudgeKey"] : [])];
    expect(allowed.get("ssm:GetParameter")).toEqual(["WorkerToken", ...keys].map(parameterArn));
    expect(allowed.get("autoscaling:TerminateInstanceInAutoScalingGroup")).toEqual([
      `arn:aws:Group:us-east-1:123456789012:${fleet}`,
    ]);
  },
);

test.each(FLEETS)("%s has a boot script that bash accepts, that fits in user data and has no secret in it", (fleet) => {
  const script = bootOf(fleet);
  expect(() => execFileSync("bash", ["-n"], { input: script })).not.toThrow();
  expect(Buffer.byteLength(script)).toBeLessThan(16_384);
  for (const secret of Object.values(SECRETS)) expect(script).not.toContain(secret);
  expect(script).toContain(`MGRPO_BUCKET='${ofKind(prod, "Bucket")[0]?.inputs.bucket}'`);
  const keys = ofKind(prod, "BucketObjectv2").map(({ inputs }) => inputs.key);
  const settings = settingsOf(script);
  for (const setting of ["ARCHIVE", "LOCK"]) {
    expect(keys).toContain(settings.get(setting));
    expect(settings.get(setting)?.split("/")[1]).toBe(settings.get(`${setting}_SHA256`));
  }
});

test("secrets are only in their encrypted parameters, the judge's also in the functions that call or check judges", () => {
  const resources = prod.resources.filter(({ type }) => type.startsWith("aws:"));
  const holders = Object.entries(SECRETS).map(([name, value]) => {
    const holding = resources.filter(({ inputs }) => JSON.stringify(inputs).includes(value));
    return [name, holding.map((resource) => resource.name).sort()];
  });
  expect(Object.fromEntries(holders)).toEqual({
    ...Object.fromEntries(Object.keys(SECRETS).map((name) => [name, [`${name}Parameter`]])),
    JudgeKey: ["JudgeKeyParameter", "ScoreRolloutFunction", "StartRunFunction"],
  });
  for (const { inputs } of ofKind(prod, "Parameter")) expect(inputs.type).toBe("SecureString");
});

test("the table contains the deployment's record, in the format that launch, tick and the instances parse", () => {
  const described = (deployment: typeof prod) => {
    const { tableName, item } = resourceNamed(ofKind(deployment, "TableItem"), "Deployment").inputs;
    expect(tableName).toBe(`mgrpo-${deployment.app.stage}`);
    const { pk, sk, deployment: text, ...others } = JSON.parse(item);
    expect([{ pk: pk.S, sk: sk.S }, others]).toEqual([tableKeys.deployment, {}]);
    return parseDeployment({ deployment: text.S });
  };
  const { clockRule, bucket, fleets, release: deployed } = described(prod) ?? {};
  expect(deployed).toBe(release({}));
  for (const fleet of fleets ?? []) expect(fleet.release).toBe(deployed);
  expect(clockRule).toBe(resourceNamed(ofKind(prod, "EventRule"), "Clock").name);
  expect(bucket).toBe(ofKind(prod, "Bucket")[0]?.inputs.bucket);
  expect(fleets?.map(({ group, max }) => [group, max])).toEqual(FLEETS.map((name) => [name, groupOf(name).maxSize]));
  expect(fleets?.map(({ name }) => name)).toEqual(FLEETS.map((name) => settingsOf(bootOf(name)).get("FLEET")));
  expect(fleets?.at(-1)).toMatchObject({ agent: "*", roles: ["eval"] });
  const other = described(serverless);
  expect(other?.fleets).toEqual([]);
  // A deployment with a user's project runs other code.
  expect(other?.release).not.toBe(deployed);
});

test("the deployment's record is written after its functions and fleets, and a fleet's template after the release's upload", () => {
  for (const { resources } of [prod, serverless]) {
    const positions = new Map(resources.map(({ name }, position) => [name, position]));
    const positionsOf = (pattern: RegExp) =>
      [...positions].flatMap(([name, position]) => (pattern.test(name) ? [position] : []));
    const [record = -1] = positionsOf(/^Deployment$/);
    expect(positionsOf(/Function$/)).toHaveLength(5);
    for (const position of positionsOf(/^Fleet\w+$|Function$/)) expect(position).toBeLessThan(record);
    const uploaded = Math.max(...positionsOf(/^Release(Archive|Lock)$/));
    for (const position of positionsOf(/^Fleet\w+Template$/)) expect(position).toBeGreaterThan(uploaded);
  }
});

test("two fleets for the same work are refused, and so is an invalid name", () => {
  const fleet = { ...{ agent: "main", gpu: true, instanceTypes: ["g6.xlarge"], max: 1, onDemand: 0 } };
  const fleets = [
    { ...fleet, name: "main", roles: "rollout,train" },
    { ...fleet, name: "spare", roles: "rollout" },
  ];
  expect(() => refuseUnusable(fleets)).toThrow("fleets main and spare both serve main as rollout: keep one of them");
  expect(() => refuseUnusable([{ ...fleet, name: "Main", roles: "rollout" }])).toThrow(
    "fleet Main: name: write 1 to 31 lower-case letters",
  );
  expect(() => refuseUnusable(fleets.map((one) => ({ ...one, agent: one.name })))).not.toThrow();
});

test("an archive of another release, or of another package, is refused", () => {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-archive-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const pack = (files: Readonly<Record<string, string>>) => {
    mkdirSync(join(folder, "package/dist"), { recursive: true });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, "package", file), text);
    execFileSync("tar", ["-czf", "mgrpo.tgz", "package"], { cwd: folder });
    return join(folder, "mgrpo.tgz");
  };
  expect(() => refuseOtherArchive(pack({ "package.json": "{}" }), "0.1.0+abc")).toThrow(
    /mgrpo.tgz is not an archive of/,
  );
  const archive = pack({ "package.json": JSON.stringify({ version: "0.1.0" }), "dist/release": "abc" });
  refuseOtherArchive(archive, "0.1.0+abc");
  expect(() => refuseOtherArchive(archive, "0.1.0+def")).toThrow(
    /mgrpo.tgz holds release 0.1.0\+abc, but this checkout is 0.1.0\+def: run npm run pack again, then deploy, both with the same MGRPO_PROJECT/,
  );
});

test("a worker gets the flags that it takes, and the environment that it needs", () => {
  const script = bootOf("FleetEval");
  const [, command = ""] = /^ExecStart=(.*worker\.js.*)$/m.exec(script) ?? [];
  const source = readFileSync(resolve(import.meta.dirname, "../../gpu-workers/worker.ts"), "utf8");
  const flags = [...command.matchAll(/--(\w+) \S*\$\{?\w+/g)].map(([, name]) => name);
  expect(flags).toEqual(["fleet", "host", "port", "url"]);
  for (const flag of flags) expect(source).toMatch(new RegExp(`^ {6}${flag}: \\{ type: "string"`, "m"));
  const needed = Object.entries(WorkerEnvironment.shape).filter(([, schema]) => !schema.isOptional());
  const names = [...script.matchAll(/\bfor NAME in ([\w ]+); do setting|\bsetting (\w+) /g)].flatMap(
    ([, list, one]) => list?.split(" ") ?? one,
  );
  expect(names).toEqual(expect.arrayContaining(needed.map(([name]) => name)));
});

test("the serverless part alone has no instance and no network, and needs no token", () => {
  for (const kind of ["Group", "LaunchTemplate", "Vpc", "Subnet", "Parameter", "InstanceProfile"])
    expect(ofKind(serverless, kind), kind).toEqual([]);
  expect(Object.keys(serverless.outputs)).toEqual(expect.arrayContaining(["table", "bucket", "startRun"]));
  expect(ofKind(serverless, "Function")).toHaveLength(5);
});

function parameterArn(secret: string): string {
  return `arn:aws:Parameter:us-east-1:123456789012:${secret}Parameter`;
}

function settingsOf(script: string): Map<string, string> {
  return new Map([...script.matchAll(/^([A-Z_0-9]+)='(.*)'$/gm)].map(([, name = "", value = ""]) => [name, value]));
}
