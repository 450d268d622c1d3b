/**
 * @file A store that refuses requests, in seven commands that use one: the error says, in one line, what is wrong, where and what to do. Only
 * a temporary fault is retried. (That a failed command prints its line and exits with code 1: machines.long.test.ts, runs.test.ts.)
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CreateTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { openClients } from "../../adapters/aws/clients.ts";
import { translated } from "../../adapters/aws/errors.ts";
import { openAwsStore } from "../../adapters/aws/store.ts";
import type { ErrorCode } from "../../core/errors.ts";
import { compose, openStore, readEnvironment } from "../../gpu-workers/compose.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { retryingStore } from "../../gpu-workers/retrying-store.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { closeProxies, startProxy } from "../fakes/proxies.ts";
import { chdirToProject, trainRelay } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const TOKEN = { MGRPO_WORKER_TOKEN: "sixteen characters" };
const silent = createLog(() => {});
const store = await openLocalStore();
const home = { ...store.cloud.environment };
chdirToProject();
beforeAll(async () => {
  const dynamo = new DynamoDBClient();
  const keys = { AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" as const }] };
  const KeySchema = [{ AttributeName: "id", KeyType: "HASH" as const }];
  await dynamo.send(
    new CreateTableCommand({ TableName: "orders", BillingMode: "PAY_PER_REQUEST", ...keys, KeySchema }),
  );
  dynamo.destroy();
});
beforeEach(() => void Object.assign(process.env, home));
afterEach(closeProxies);
afterAll(() => store.close());

/** Each uses the store that the environment names. */
const COMMANDS: Record<string, () => Promise<unknown>> = {
  launch: () => printedJson("launch", ...trainRelay("bad").slice(1)),
  worker: () => compose("bad", openStore(readEnvironment({ ...process.env, ...TOKEN })), silent),
  dispatch: () => printedJson("dispatch"),
  show: () => printedJson("show", "bad"),
  export: () => printedJson("export", "bad"),
  runs: () => printedJson("runs"),
  check: () => printedJson("cloud", "check"),
};

const WRONG: [what: string, environment: Record<string, string>, code: ErrorCode, line: RegExp][] = [
  ["no such table", { MGRPO_TABLE: "nowhere" }, "not-found", /has no such table .*MGRPO_TABLE.*mgrpo cloud setup/],
  ["another program's table", { MGRPO_TABLE: "orders" }, "config-invalid", /another program's.*another MGRPO_TABLE/],
  ["a table's name with a space", { MGRPO_TABLE: "my table" }, "config-invalid", /MGRPO_TABLE and .* to plain names/],
  ["another region", { AWS_REGION: "eu-west-1" }, "store-unreachable", /another region: set AWS_REGION/],
  ["another key", { AWS_ACCESS_KEY_ID: "x" }, "store-unreachable", /refused the credentials: check AWS_ACCESS_KEY_ID/],
  ["another secret", { AWS_SECRET_ACCESS_KEY: "x" }, "store-unreachable", /refused the credentials/],
];

describe.each(WRONG)("%s", (_what, environment, code, line) => {
  test.each(Object.keys(COMMANDS))("%s fails with a one-line error that is not retryable", async (name) => {
    Object.assign(process.env, environment);
    const refused: unknown = await COMMANDS[name]?.().catch((error: unknown) => error);
    expect(refused).toMatchObject({ code, retryable: false, message: expect.stringMatching(line) });
    expect(refused).not.toMatchObject({ message: expect.stringContaining("\n") });
  });
});

test.each(["launch", "dispatch", "check"])("if the bucket does not exist, the error of %s says so", async (name) => {
  process.env["MGRPO_BUCKET"] = "nowhere";
  await expect(COMMANDS[name]?.()).rejects.toMatchObject({
    code: "not-found",
    message: expect.stringMatching(/has no such table or bucket: check .*MGRPO_BUCKET/),
  });
});

test.each(["s3://mgrpo", "mgrpo/", "My bucket"])("MGRPO_BUCKET=%s is refused: not a valid name", async (bucket) => {
  process.env["MGRPO_BUCKET"] = bucket;
  await expect(COMMANDS["check"]?.()).rejects.toMatchObject({
    code: "config-invalid",
    retryable: false,
    message: expect.stringMatching(/can have no table or bucket of this name: set MGRPO_TABLE and MGRPO_BUCKET/),
  });
});

const xml = (code: string) => `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`;
const json = (name: string, message = "no") => JSON.stringify({ __type: `com.amazon#${name}`, message });
const THROTTLED = /is throttling: wait/;
const EXPIRED = /expired credentials: get new ones/;
/** The message names no limit: it is 15 minutes for S3, 5 for DynamoDB. */
const SKEWED = /disagree on the time: set this machine's clock/;
const FORBIDDEN = /forbids it: .*another account/;

/** As AWS sends them. S3's response to a HEAD has no body: the reason comes from a GET that is sent after it. */
const REFUSALS: [api: "S3" | "DYNAMODB", status: number, body: string, line: RegExp, retryable: boolean][] = [
  ["S3", 301, xml("PermanentRedirect"), /another region: set AWS_REGION/, false],
  ["S3", 400, xml("AuthorizationHeaderMalformed"), /another region: set AWS_REGION/, false],
  ["S3", 403, xml("AccessDenied"), FORBIDDEN, false],
  ["S3", 400, xml("ExpiredToken"), EXPIRED, false],
  ["S3", 403, "", /forbids it and gives no reason/, false],
  ["S3", 403, xml("InvalidObjectState"), /refuses it \(403 InvalidObjectState: no\)/, false],
  ["S3", 403, xml("RequestTimeTooSkewed"), SKEWED, false],
  ["S3", 503, xml("SlowDown"), THROTTLED, true],
  ["S3", 400, xml("RequestTimeout"), /did not get the whole request: the connection is slow/, true],
  ["S3", 400, xml("IncompleteBody"), /did not get the whole request/, true],
  ["S3", 409, xml("OperationAborted"), /processing a conflicting request/, true],
  ["S3", 400, xml("InvalidObjectName"), /refuses it \(400 InvalidObjectName: no\)/, false],
  ["S3", 500, xml("InternalError"), /had an internal error: try again/, true],
  ["S3", 502, "<html>\nBad Gateway</html>", /no usable answer from the store/, true],
  ["DYNAMODB", 400, json("ExpiredTokenException"), EXPIRED, false],
  ["DYNAMODB", 400, json("UnrecognizedClientException"), /refused the credentials/, false],
  ["DYNAMODB", 400, json("InvalidSignatureException", "Signature expired: it is late"), SKEWED, false],
  ["DYNAMODB", 400, json("AccessDeniedException"), FORBIDDEN, false],
  ["DYNAMODB", 400, json("ThrottlingException"), THROTTLED, true],
  ["DYNAMODB", 400, json("LimitExceededException"), /refuses it \(400 LimitExceededException: no\)/, false],
  ["DYNAMODB", 500, json("InternalServerError"), /had an internal error: try again/, true],
  ["DYNAMODB", 502, "<html>\nBad Gateway</html>", /no usable answer from the store/, true],
];

test.each(REFUSALS)("one line says why: %s responds with %i %s", async (api, status, body, line, retryable) => {
  const variable = `AWS_ENDPOINT_URL_${api}`;
  process.env[variable] = await startProxy(home[variable] ?? "", { change: () => ({ status, body }) });
  const { objects, table, close } = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  const requests = { S3: () => objects.get("k"), DYNAMODB: () => table.get({ pk: "p", sk: "s" }) };
  const calls = [requests[api](), ...(api === "S3" && !retryable ? [objects.head("k")] : [])];
  for (const refused of await Promise.allSettled(calls)) {
    expect(refused).toMatchObject({ reason: { retryable, message: expect.stringMatching(line) } });
    expect(refused).not.toMatchObject({ reason: { message: expect.stringContaining("\n") } });
  }
  close();
});

test.each(["us east 1", '"us-east-1"'])("AWS_REGION=%s is refused: not a region's name", async (region) => {
  process.env["AWS_REGION"] = region;
  for (const name of ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_S3"]) delete process.env[name];
  const { objects, table, close } = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  for (const refused of await Promise.allSettled([objects.get("k"), table.get({ pk: "p", sk: "s" })]))
    expect(refused).toMatchObject({
      reason: { retryable: false, message: expect.stringMatching(/set AWS_REGION to/) },
    });
  close();
});

test.each([
  ["https://dynamodb.us-east1.amazonaws.com", /check AWS_REGION, and this machine's connection/],
  ["https://mgrpo.s3.us-east1.amazonaws.com", /check AWS_REGION/],
  ["http://192.168.1.10:7070", /check that it is running, and check AWS_ENDPOINT_URL_DYNAMODB/],
])("if %s does not exist, the error says which variable to check", async (endpoint, line) => {
  const notFound = Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" });
  const asked = translated(
    "read",
    () => endpoint,
    () => Promise.reject(notFound),
  );
  await expect(asked).rejects.toMatchObject({ retryable: true, message: expect.stringMatching(line) });
});

test("workers wait out temporary faults, and no others", async () => {
  let [code, status, attempts] = ["SlowDown", 503, 0];
  /** One more than the SDK itself makes. */
  const passingAttempt = 5;
  process.env["AWS_ENDPOINT_URL_S3"] = await startProxy(home["AWS_ENDPOINT_URL_S3"] ?? "", {
    change: ({ body }) => (++attempts === passingAttempt ? body : { status, body: xml(code) }),
  });
  const { close, ...opened } = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  const retrying = retryingStore(opened, 600, silent);
  expect(await retrying.objects.get("k")).toBeUndefined();
  expect(attempts).toBe(passingAttempt);
  [code, status] = ["ExpiredToken", 400];
  await expect(retrying.objects.get("k")).rejects.toThrow(EXPIRED);
  expect(attempts).toBe(passingAttempt + 1);
  close();
});

test("for a custom endpoint, the keys in the environment are used, even if AWS_PROFILE is set", async () => {
  const restore = setEnvironment({
    AWS_PROFILE: "work",
    AWS_CONFIG_FILE: "/nowhere",
    AWS_SHARED_CREDENTIALS_FILE: "/nowhere",
  });
  const { table, close } = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  expect(await table.get({ pk: "RUN#none", sk: "RUN" })).toBeUndefined();
  close();
  restore();
});

test("if a profile has no single sign-on login, the error says to log in", async () => {
  const folder = mkdtempSync(join(tmpdir(), "profile-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const config = join(folder, "config");
  const sso = { start_url: "https://nowhere.example/start", account_id: "1", region: "us-east-1", role_name: "dev" };
  const settings = Object.entries(sso).map(([name, value]) => `sso_${name} = ${value}`);
  writeFileSync(config, ["[profile work]", ...settings, ""].join("\n"));
  const files = { AWS_CONFIG_FILE: config, AWS_SHARED_CREDENTIALS_FILE: "/nowhere" };
  onTestFinished(setEnvironment({ AWS_PROFILE: "work", ...files }));
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]) delete process.env[name];
  const { table, close } = openAwsStore({ table: "mgrpo", bucket: "mgrpo" });
  const LOGIN = /requires credentials, and the profile's login is missing or has expired: run `aws sso login`/;
  await expect(table.get({ pk: "RUN#none", sk: "RUN" })).rejects.toThrow(LOGIN);
  close();
});

test("without AWS_REGION, AWS's own endpoint needs a region from a profile, and a custom endpoint defaults to us-east-1", async () => {
  for (const name of Object.keys(home))
    if (name.startsWith("AWS_ENDPOINT") || name === "AWS_REGION") delete process.env[name];
  const ignored = { sent() {}, answered() {} };
  const open = () => openClients({ dynamo: ignored, s3: ignored });
  process.env["AWS_CONFIG_FILE"] = "/nowhere";
  await expect(open().s3.config.region()).rejects.toThrow("Region is missing");
  process.env["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:1";
  expect(await open().s3.config.region()).toBe("us-east-1");
  // DynamoDB is still at AWS's own endpoint.
  await expect(open().dynamo.config.region()).rejects.toThrow("Region is missing");
  process.env["AWS_REGION"] = "eu-west-1";
  expect(await open().s3.config.region()).toBe("eu-west-1");
});

test("without AWS_REGION, the profile's region is used for both services, even if one has a custom endpoint", async () => {
  for (const name of Object.keys(home))
    if (name.startsWith("AWS_ENDPOINT") || name === "AWS_REGION") delete process.env[name];
  const folder = mkdtempSync(join(tmpdir(), "profile-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "config"), "[default]\nregion = eu-central-1\n");
  process.env["AWS_CONFIG_FILE"] = join(folder, "config");
  process.env["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:1";
  const ignored = { sent() {}, answered() {} };
  const { s3, dynamo } = openClients({ dynamo: ignored, s3: ignored });
  expect(await dynamo.config.region()).toBe("eu-central-1");
  expect(await s3.config.region()).toBe("eu-central-1");
});
