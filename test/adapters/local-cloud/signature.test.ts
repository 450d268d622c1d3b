/**
 * @file Signatures of requests: AWS's own examples, requests of the SDK, and tampered, old or foreign ones. Correctly signed requests to
 * DynamoDB are refused too if they are too large or malformed.
 */
import { createHash, createHmac } from "node:crypto";
import { request } from "node:http";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { SignatureV4 } from "@smithy/signature-v4";
import { afterAll, describe, expect, test } from "vitest";
import type { ReceivedRequest } from "../../../adapters/local-cloud/authentication.ts";
import { startLocalCloud } from "../../../adapters/local-cloud/cloud.ts";
import { openSignatureVerifier } from "../../../adapters/local-cloud/signature.ts";
import { freshDirectory, openLocalStore } from "../../fakes/local-store.ts";

const EMPTY = createHash("sha256").update("").digest("hex");

describe("AWS's examples of signed requests (S3 API reference, May 2013)", () => {
  const verify = openSignatureVerifier({
    credentials: { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" },
    region: "us-east-1",
    service: "s3",
    now: () => Date.parse("2013-05-24T00:10:00Z"),
  });
  const example = (url: string, signature: string, more: Record<string, string> = {}): ReceivedRequest => {
    const signed = ["host", ...Object.keys(more), "x-amz-content-sha256", "x-amz-date"].join(";");
    return {
      method: "GET",
      url,
      headers: {
        host: "examplebucket.s3.amazonaws.com",
        ...more,
        "x-amz-content-sha256": EMPTY,
        "x-amz-date": "20130524T000000Z",
        authorization: `AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=${signed},Signature=${signature}`,
      },
    };
  };
  const object = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
  const lifecycle = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
  const list = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";

  const sent = example("/?lifecycle", lifecycle);
  // No header has this name, but every object has a property with it.
  const authorization = sent.headers.authorization?.replace("=host;", "=constructor;host;");

  test("are accepted", async () => {
    await verify(example("/test.txt", object, { range: "bytes=0-9" }));
    await verify(example("/?lifecycle", lifecycle));
    await verify(example("/?max-keys=2&prefix=J", list));
  });

  test.each([
    ["another path", example("/test.txu", object, { range: "bytes=0-9" })],
    ["another header", example("/test.txt", object, { range: "bytes=0-8" })],
    ["another query", example("/?max-keys=2&prefix=K", list)],
    ["one parameter more", example("/?max-keys=2&prefix=J&prefix=J", list)],
    ["one parameter fewer", example("/?prefix=J", list)],
    ["another method", { ...example("/?lifecycle", lifecycle), method: "DELETE" }],
    ["a signed header that is absent", { ...sent, headers: { ...sent.headers, authorization } }],
    ["another body", { ...example("/?lifecycle", lifecycle), body: Buffer.from("x") }],
  ])("are refused with %s", async (_what, tampered) => {
    await expect(verify(tampered)).rejects.toMatchObject({ reason: "mismatch" });
  });
});

const cloud = await openLocalStore();
afterAll(() => cloud.close());
const environment = cloud.cloud.environment;
const credentials = {
  accessKeyId: environment["AWS_ACCESS_KEY_ID"] ?? "",
  secretAccessKey: environment["AWS_SECRET_ACCESS_KEY"] ?? "",
};

interface Raw {
  readonly service: "s3" | "dynamodb";
  readonly method: string;
  readonly path: string;
  readonly query?: Record<string, string>;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

interface Changes {
  readonly secret?: string;
  readonly keyId?: string;
  readonly region?: string;
  /** Offset of the signing date from now. */
  readonly minutes?: number;
  /** Whether a header carries the hash of the body. */
  readonly applyChecksum?: boolean;
  /** Changes the signed request in transit. */
  readonly tamper?: (sent: { path: string; headers: Record<string, string>; body: string }) => object;
}

/** Signs as the SDK does, tampers, and sends. Returns the status and body of the response. */
async function send(raw: Raw, changes: Changes = {}) {
  const { secret, keyId, region = "us-east-1", minutes = 0, applyChecksum = true, tamper } = changes;
  const { service, method, path, query = {}, body = "" } = raw;
  const endpoint = new URL(environment[service === "s3" ? "AWS_ENDPOINT_URL_S3" : "AWS_ENDPOINT_URL_DYNAMODB"] ?? "");
  class Hash {
    readonly state;
    constructor(key?: unknown) {
      this.state = key === undefined ? createHash("sha256") : createHmac("sha256", key as Buffer);
    }
    update(data: unknown) {
      this.state.update(data as Buffer);
    }
    async digest() {
      return this.state.digest();
    }
    reset() {}
  }
  const signer = new SignatureV4({
    credentials: {
      accessKeyId: keyId ?? credentials.accessKeyId,
      secretAccessKey: secret ?? credentials.secretAccessKey,
    },
    ...{ region, service, sha256: Hash as never, applyChecksum, uriEscapePath: service !== "s3" },
  });
  const unsigned = { method, protocol: "http:", hostname: "127.0.0.1", path, query, body };
  const headers = { host: endpoint.host, "content-length": String(Buffer.byteLength(body)), ...raw.headers };
  const signed = await signer.sign({ ...unsigned, headers }, { signingDate: new Date(Date.now() + minutes * 60_000) });
  const search = new URLSearchParams(query).toString();
  const sent = { path: `${path}${search && `?${search}`}`, headers: signed.headers, body };
  const changed = { ...sent, ...tamper?.(sent) };
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const { path: target, headers: sentHeaders } = changed;
    const call = request({ host: "127.0.0.1", port: endpoint.port, method, path: target, headers: sentHeaders });
    call.on("error", reject).on("response", async (response) => {
      resolve({ status: response.statusCode ?? 0, text: await text(response) });
    });
    call.end(changed.body);
  });
}

const put: Raw = { service: "s3", method: "PUT", path: "/mgrpo/a%20b/%2B.json", body: "some bytes" };
const list: Raw = { service: "s3", method: "GET", path: "/mgrpo", query: { "list-type": "2", prefix: "no-such" } };
const describeTable: Raw = {
  service: "dynamodb",
  method: "POST",
  path: "/",
  headers: { "content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.DescribeTable" },
  body: '{"TableName":"mgrpo"}',
};

test("if no header has the hash of a body, the server computes it: other SDKs sign requests to DynamoDB like this", async () => {
  expect(await send(describeTable, { applyChecksum: false })).toMatchObject({ status: 200 });
  const tamper = ({ body }: { body: string }) => ({ body: body.replace("mgrpo", "other") });
  const changed = await send(describeTable, { applyChecksum: false, tamper });
  expect(changed.text).toContain("InvalidSignatureException");
});

test.each([put, list, describeTable])(
  "signed with the cloud's own keys, now or 10 minutes ago: $service $method is accepted",
  async (raw) => {
    expect(await send(raw)).toMatchObject({ status: 200 });
    expect(await send(raw, { minutes: -10 })).toMatchObject({ status: 200 });
  },
);

const CASES: [string, Changes, string, string][] = [
  ["another secret", { secret: "x".repeat(40) }, "SignatureDoesNotMatch", "InvalidSignatureException"],
  ["another key id", { keyId: "SOMEBODY" }, "InvalidAccessKeyId", "UnrecognizedClientException"],
  ["another region", { region: "eu-west-1" }, "AuthorizationHeaderMalformed", "InvalidSignatureException"],
  ["a date of 16 minutes ago", { minutes: -16 }, "RequestTimeTooSkewed", "InvalidSignatureException"],
  ["a date in 16 minutes", { minutes: 16 }, "RequestTimeTooSkewed", "InvalidSignatureException"],
  [
    "a date changed after signing",
    // Only the seconds change, so the day still matches the signature's scope.
    {
      tamper: ({ headers }) => ({ headers: { ...headers, "x-amz-date": anotherSecond(headers["x-amz-date"] ?? "") } }),
    },
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
  ],
  [
    "no signature",
    { tamper: ({ headers: { authorization: _, ...headers } }) => ({ headers }) },
    "AccessDenied",
    "MissingAuthenticationTokenException",
  ],
  [
    "an added header that must be signed",
    { tamper: ({ headers }) => ({ headers: { ...headers, "x-amz-meta-a": "b" } }) },
    "AuthorizationHeaderMalformed",
    "IncompleteSignatureException",
  ],
  [
    "another path",
    { tamper: ({ path }) => ({ path: path.replace("/", "//") }) },
    "SignatureDoesNotMatch",
    // Services other than S3 ignore empty path segments.
    "",
  ],
];

test.each(CASES)("a request with %s is refused with AWS's error code", async (_what, changes, s3Name, dynamoName) => {
  for (const raw of [put, list]) expect((await send(raw, changes)).text).toContain(`<Code>${s3Name}</Code>`);
  if (dynamoName !== "") expect((await send(describeTable, changes)).text).toContain(`#${dynamoName}"`);
});

test.each([
  [-16, /Signature expired: \d+T\d+Z is more than 15 minutes before /],
  [16, /Signature not yet current: \d+T\d+Z is more than 15 minutes after /],
])("a date %i minutes from now is refused in AWS's words", async (minutes, message) => {
  expect((await send(describeTable, { minutes })).text).toMatch(message);
});

test("a changed body is refused and not stored, and a changed query is refused", async () => {
  const tamper = ({ body }: { body: string }) => ({ body: body.replace(/[a-z]/, "X") });
  const upload = { ...put, path: "/mgrpo/tampered" };
  expect((await send(upload, { tamper })).text).toContain("XAmzContentSHA256Mismatch");
  expect(await cloud.objects.head("tampered")).toBeUndefined();
  expect((await send(describeTable, { tamper })).text).toContain("InvalidSignatureException");
  const query = ({ path }: { path: string }) => ({ path: path.replace("no-such", "") });
  expect((await send(list, { tamper: query })).text).toContain("SignatureDoesNotMatch");
});

test("the signature covers the query as the server reads it: a plus is a space", async () => {
  const withPrefix = (prefix: string): Raw => ({ ...list, query: { "list-type": "2", prefix } });
  // On the wire, a space is +, and a plus is %2B.
  expect(await send(withPrefix("a b"))).toMatchObject({ status: 200 });
  expect(await send(withPrefix("a+b"))).toMatchObject({ status: 200 });
  const tamper = ({ path }: { path: string }) => ({ path: path.replace("%2B", "+") });
  expect((await send(withPrefix("a+b"), { tamper })).text).toContain("SignatureDoesNotMatch");
});

test("a request to DynamoDB of more than 16 MiB is refused for its size, not for its signature", async () => {
  const body = `{"TableName":"mgrpo"}${" ".repeat(16 * 2 ** 20)}`;
  expect(await send({ ...describeTable, body })).toMatchObject({
    status: 413,
    text: expect.stringContaining("a request may have at most 16777216 bytes: this one has 16777237"),
  });
});

test("an expression that is not text is refused as the caller's fault, which no retry fixes", async () => {
  const headers = { ...describeTable.headers, "x-amz-target": "DynamoDB_20120810.UpdateItem" };
  const body = '{"TableName":"mgrpo","Key":{},"UpdateExpression":1}';
  expect(await send({ ...describeTable, headers, body })).toMatchObject({
    status: 400,
    text: expect.stringContaining("SerializationException"),
  });
});

test("a signed condition cannot be removed in transit", async () => {
  const once: Raw = { ...put, path: "/mgrpo/once", headers: { "if-none-match": "*" } };
  expect((await send(once)).status).toBe(200);
  const tamper = ({ headers: { "if-none-match": _, ...headers } }: { headers: Record<string, string> }) => ({
    headers,
  });
  expect((await send({ ...once, body: "other" }, { tamper })).text).toContain("SignatureDoesNotMatch");
  expect(await cloud.objects.get("once")).toEqual(new TextEncoder().encode("some bytes"));
});

test("a request whose signature does not cover the hash of its body is refused", async () => {
  for (const value of [
    "UNSIGNED-PAYLOAD",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "",
  ]) {
    const unsigned = { ...put, headers: { "x-amz-content-sha256": value } };
    expect(await send(unsigned)).toMatchObject({ status: 501, text: expect.stringContaining("NotImplemented") });
    const lookup = { ...describeTable, headers: { ...describeTable.headers, "x-amz-content-sha256": value } };
    expect((await send(lookup)).text).toContain(`x-amz-content-sha256 is '${value}': send the SHA-256 of the body`);
  }
  const s3 = new S3Client({ maxAttempts: 1 });
  const stream = { Bucket: "mgrpo", Key: "stream", Body: Readable.from(["abc"]), ContentLength: 3 };
  await expect(s3.send(new PutObjectCommand(stream))).rejects.toMatchObject({ name: "NotImplemented" });
  expect(await cloud.objects.head("stream")).toBeUndefined();
  s3.destroy();
});

test("a client whose clock is hours off learns the time from the refusal", async () => {
  const s3 = new S3Client({ systemClockOffset: -5 * 3_600_000, maxAttempts: 1 });
  const put = new PutObjectCommand({ Bucket: "mgrpo", Key: "late", Body: "abc" });
  await expect(s3.send(put)).rejects.toMatchObject({ name: "RequestTimeTooSkewed" });
  await s3.send(new PutObjectCommand({ Bucket: "mgrpo", Key: "late", Body: "abc" }));
  expect(await cloud.objects.head("late")).toBe(3);
  s3.destroy();
});

test("the verification of signatures cannot be turned off on an address other than 127.0.0.1", async () => {
  const handlers = { objectCreated: async () => {}, tick: async () => {} };
  const open = { directory: await freshDirectory(), handlers, host: "127.0.0.2", verifySignatures: false };
  await expect(startLocalCloud(open)).rejects.toMatchObject({ code: "config-invalid" });
});

/** `20261122T001500Z` with other seconds. */
function anotherSecond(amzDate: string): string {
  return amzDate.replace(/\d\dZ$/, (seconds) => (seconds === "00Z" ? "01Z" : "00Z"));
}
