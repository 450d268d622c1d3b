/** @file The S3 server, with the SDK as the client where possible, and raw requests elsewhere. */
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectTaggingCommand,
  GetObjectAclCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { decodeAwsChunked } from "../../../adapters/local-cloud/s3/aws-chunked.ts";
import { openLocalStore } from "../../fakes/local-store.ts";

/** Does not verify signatures: some requests here are handmade, and some bodies are streams, which are not signed. */
const store = await openLocalStore({ verifySignatures: false });
/** With the SDK's default checksums: CRC32, trailing when the body is a stream. */
const s3 = new S3Client({ maxAttempts: 1 });
afterAll(async () => {
  s3.destroy();
  await store.close();
});
const Bucket = "mgrpo";
const text = async (Key: string, Range?: string) =>
  (await s3.send(new GetObjectCommand({ Bucket, Key, Range }))).Body?.transformToString();
/** One for each body that is being received, and each upload that is being joined or removed. */
const temporaryFiles = () => readdir(join(store.directory, "temporary"));

test("a ranged read returns the requested bytes; a range that starts past the end is refused", async () => {
  await s3.send(new PutObjectCommand({ Bucket, Key: "range", Body: "0123456789" }));
  expect(await text("range", "bytes=0-0")).toBe("0");
  expect(await text("range", "bytes=3-5")).toBe("345");
  expect(await text("range", "bytes=7-")).toBe("789");
  expect(await text("range", "bytes=-4")).toBe("6789");
  expect(await text("range", "bytes=8-99")).toBe("89");
  await expect(text("range", "bytes=10-12")).rejects.toMatchObject({ name: "InvalidRange" });
});

test("a read conditional on another ETag is refused, and the message names both", async () => {
  const { ETag = expect.fail("it has no ETag") } = await s3.send(
    new PutObjectCommand({ Bucket, Key: "tagged", Body: "1" }),
  );
  const read = (IfMatch: string) => s3.send(new GetObjectCommand({ Bucket, Key: "tagged", IfMatch }));
  expect(await (await read(ETag)).Body?.transformToString()).toBe("1");
  await expect(read('"other"')).rejects.toMatchObject({
    name: "PreconditionFailed",
    message: `the ETag of tagged is ${ETag}, not "other"`,
  });
});

test("multipart: parts are joined in order, committed once, and readable across their boundaries", async () => {
  const Key = "multi";
  const part = (byte: number, length: number) => Buffer.alloc(length, byte);
  const upload = async () => {
    const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
    const Parts = [];
    for (const [PartNumber, Body] of [[2, part(2, 1000)] as const, [1, part(1, 5 << 20)] as const]) {
      const { ETag } = await s3.send(new UploadPartCommand({ Bucket, Key, UploadId, PartNumber, Body }));
      Parts.unshift({ PartNumber, ETag });
    }
    return { Bucket, Key, UploadId, MultipartUpload: { Parts }, IfNoneMatch: "*" };
  };
  const [first, second] = [await upload(), await upload()];
  const { ETag } = await s3.send(new CompleteMultipartUploadCommand(first));
  const md5 = (bytes: Buffer) => createHash("md5").update(bytes).digest();
  const digests = Buffer.concat([md5(part(1, 5 << 20)), md5(part(2, 1000))]);
  expect(ETag).toBe(`"${md5(digests).toString("hex")}-2"`);
  await expect(s3.send(new CompleteMultipartUploadCommand(second))).rejects.toMatchObject({
    name: "PreconditionFailed",
  });
  expect(await text(Key, `bytes=${(5 << 20) - 2}-${(5 << 20) + 1}`)).toBe("\u0001\u0001\u0002\u0002");
  await expect(s3.send(new CompleteMultipartUploadCommand(first))).rejects.toMatchObject({ name: "NoSuchUpload" });
});

test("a large commit, uploaded in parts, is recognized as ours the second time; other bytes are not", async () => {
  const body = new Uint8Array(65 << 20).fill(7);
  expect(await store.objects.commit("weights", body)).toBe(true);
  expect(await store.objects.commit("weights", body)).toBe(true);
  body[33 << 20] = 8;
  expect(await store.objects.commit("weights", body)).toBe(false);
  expect(await store.objects.head("weights")).toBe(65 << 20);
});

test("a small object's ETag is its MD5; a large one's is not and ends in -1, but a commit still recognizes the same bytes", async () => {
  const large = new Uint8Array(2 << 20).fill(7);
  const etagOf = async (Key: string, Body: Uint8Array) => {
    await s3.send(new PutObjectCommand({ Bucket, Key, Body }));
    return (await s3.send(new HeadObjectCommand({ Bucket, Key }))).ETag;
  };
  const small = large.subarray(0, 1000);
  expect(await etagOf("small", small)).toBe(`"${createHash("md5").update(small).digest("hex")}"`);
  expect(await etagOf("large", large)).toBe(`"${createHash("sha256").update(large).digest("hex").slice(0, 32)}-1"`);
  expect(await store.objects.commit("large", large)).toBe(true);
  expect(await store.objects.commit("large", large.with(1 << 20, 8))).toBe(false);
});

test("a wrong Content-MD5 is refused, even for a large object, whose ETag is not its MD5", async () => {
  const ContentMD5 = createHash("md5").update("another body").digest("base64");
  const put = new PutObjectCommand({ Bucket, Key: "broken", Body: new Uint8Array(2 << 20), ContentMD5 });
  await expect(s3.send(put)).rejects.toMatchObject({ name: "BadDigest" });
});

test("the caller's SHA-256 is signed: a wrong one is refused", async () => {
  const body = new Uint8Array(1000).fill(3);
  const sha256 = createHash("sha256").update(body).digest("hex");
  expect(await store.objects.commit("known", body, sha256)).toBe(true);
  expect(await store.objects.commit("known", body.slice())).toBe(true);
  const other = new Uint8Array(1000).fill(4);
  await expect(store.objects.commit("unknown", other, sha256)).rejects.toThrow(
    /the body is not the one that was signed/,
  );
  expect(await store.objects.head("unknown")).toBeUndefined();
});

test("a wrong checksum is refused and leaves nothing", async () => {
  const put = new PutObjectCommand({
    Bucket,
    Key: "bad",
    Body: "abc",
    ChecksumSHA256: Buffer.alloc(32).toString("base64"),
  });
  await expect(s3.send(put)).rejects.toMatchObject({ name: "BadDigest" });
  expect(await store.objects.head("bad")).toBeUndefined();
  expect(await temporaryFiles()).toEqual([]);
});

test("aws-chunked with a trailing checksum, as streams are sent, is decoded to the original bytes", async () => {
  const { Readable } = await import("node:stream");
  const pieces = Array.from({ length: 50 }, (_, i) => Buffer.alloc(3000, i));
  await s3.send(
    new PutObjectCommand({
      Bucket,
      Key: "stream",
      Body: Readable.from(pieces),
      ContentLength: 150_000,
      ChecksumAlgorithm: "CRC32",
    }),
  );
  expect(Buffer.compare((await store.objects.get("stream")) ?? Buffer.alloc(0), Buffer.concat(pieces))).toBe(0);
});

test("aws-chunked decodes the same wherever the network splits it", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1 })), fc.array(fc.nat(60)), async (chunks, cuts) => {
      const encoded = Buffer.concat([
        ...chunks.flatMap((chunk) => [Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n")]),
        Buffer.from("0\r\nX-Amz-Checksum-Crc32: abc=\r\n\r\n"),
      ]);
      const pieces: Buffer[] = [];
      let rest = encoded;
      for (const cut of cuts) {
        pieces.push(rest.subarray(0, cut));
        rest = rest.subarray(cut);
      }
      const source = (async function* () {
        yield* [...pieces, rest].filter((piece) => piece.length > 0);
      })();
      const trailers = new Map<string, string>();
      const decoded: Buffer[] = [];
      for await (const bytes of decodeAwsChunked(source, trailers)) decoded.push(bytes);
      expect(Buffer.concat(decoded)).toEqual(Buffer.concat(chunks));
      expect(trailers.get("x-amz-checksum-crc32")).toBe("abc=");
    }),
  );
});

test("a body that breaks off leaves no object and no temporary file", async () => {
  const endpoint = new URL(process.env["AWS_ENDPOINT_URL_S3"] ?? "");
  const authorization = `AWS4-HMAC-SHA256 Credential=${process.env["AWS_ACCESS_KEY_ID"]}/x, SignedHeaders=, Signature=`;
  const headers = { authorization, "content-length": 1000 };
  const to = { port: endpoint.port, host: "127.0.0.1", method: "PUT", path: "/mgrpo/short", headers };
  const broken = request(to).on("error", () => {});
  broken.write("only this");
  await expect.poll(temporaryFiles).toHaveLength(1);
  broken.destroy();
  await expect.poll(temporaryFiles).toEqual([]);
  expect(await store.objects.head("short")).toBeUndefined();
});

test.each<[string, Record<string, string>]>([
  ["content-length", {}],
  ["x-amz-decoded-content-length", { "content-encoding": "aws-chunked" }],
])("a body without %s is refused, since no space could be reserved for it", async (name, encoding) => {
  const authorization = `AWS4-HMAC-SHA256 Credential=${process.env["AWS_ACCESS_KEY_ID"]}/x, SignedHeaders=, Signature=`;
  // A stream is sent without a length.
  const body = new Blob(["3\r\nabc\r\n0\r\n\r\n"]).stream();
  const init = { method: "PUT", headers: { authorization, ...encoding }, body, duplex: "half" } as RequestInit;
  const response = await fetch(`${process.env["AWS_ENDPOINT_URL_S3"]}/mgrpo/unknown-length`, init);
  expect([response.status, await response.text()]).toEqual([411, expect.stringContaining(`has no ${name}`)]);
  expect(await store.objects.head("unknown-length")).toBeUndefined();
});

test("listing goes page by page through keys and folders, each once, in order", async () => {
  const keys = ["l/a", "l/b/1", "l/b/2", "l/c", "l/d/1", "l/é", "l/<&>", "l/line\nbreak"];
  for (const Key of keys) await s3.send(new PutObjectCommand({ Bucket, Key, Body: "x" }));
  const listed: string[] = [];
  let ContinuationToken: string | undefined;
  do {
    const page: Awaited<ReturnType<typeof list>> = await list();
    expect(page.KeyCount).toBeLessThanOrEqual(2);
    const contents = (page.Contents ?? []).map((one) => one.Key ?? "");
    const folders = (page.CommonPrefixes ?? []).map((one) => one.Prefix ?? "");
    expect([contents, folders]).toEqual([contents.toSorted(), folders.toSorted()]);
    // A page lists its keys and its folders separately.
    listed.push(...[...contents, ...folders].sort());
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken);
  function list() {
    return s3.send(new ListObjectsV2Command({ Bucket, Prefix: "l/", Delimiter: "/", MaxKeys: 2, ContinuationToken }));
  }
  expect(listed).toEqual(["l/<&>", "l/a", "l/b/", "l/c", "l/d/", "l/line\nbreak", "l/é"]);
});

test.each([0, -1, Number.NaN])("a page of %d keys is refused", async (MaxKeys) => {
  const listing = s3.send(new ListObjectsV2Command({ Bucket, MaxKeys }));
  await expect(listing).rejects.toMatchObject({ name: "InvalidArgument", $metadata: { httpStatusCode: 400 } });
});

test("an unconditional write replaces an object; its metadata is returned; deleting it twice is not an error", async () => {
  await s3.send(new PutObjectCommand({ Bucket, Key: "over", Body: "one" }));
  await s3.send(
    new PutObjectCommand({ Bucket, Key: "over", Body: "two", ContentType: "text/plain", Metadata: { a: "b" } }),
  );
  const found = await s3.send(new GetObjectCommand({ Bucket, Key: "over" }));
  expect(found).toMatchObject({ ContentType: "text/plain", Metadata: { a: "b" }, ContentLength: 3 });
  expect(await found.Body?.transformToString()).toBe("two");
  for (let i = 0; i < 2; i++) await s3.send(new DeleteObjectCommand({ Bucket, Key: "over" }));
  await expect(text("over")).rejects.toMatchObject({ name: "NoSuchKey" });
});

test("a write conditional on an ETag is reported as not implemented", async () => {
  const put = new PutObjectCommand({ Bucket, Key: "range", Body: "x", IfMatch: '"etag"' });
  await expect(s3.send(put)).rejects.toMatchObject({ $metadata: { httpStatusCode: 501 } });
});

test("a subresource of an object and a conditional deletion are refused, and the object stays as it is", async () => {
  const Key = "tagged";
  await s3.send(new PutObjectCommand({ Bucket, Key, Body: "body" }));
  const Tagging = { TagSet: [{ Key: "a", Value: "b" }] };
  for (const attempt of [
    () => s3.send(new GetObjectAclCommand({ Bucket, Key })),
    () => s3.send(new PutObjectTaggingCommand({ Bucket, Key, Tagging })),
    () => s3.send(new DeleteObjectTaggingCommand({ Bucket, Key })),
    () => s3.send(new DeleteObjectCommand({ Bucket, Key, IfMatch: '"another etag"' })),
  ]) {
    await expect(attempt()).rejects.toMatchObject({ $metadata: { httpStatusCode: 501 } });
  }
  expect(await text(Key)).toBe("body");
});

test("a multipart upload with encryption is refused, and so is a paged listing of an upload's parts", async () => {
  const upload = { Bucket, Key: "parts" };
  const encrypted = new CreateMultipartUploadCommand({ ...upload, SSECustomerAlgorithm: "AES256" });
  await expect(s3.send(encrypted)).rejects.toMatchObject({ $metadata: { httpStatusCode: 501 } });
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(upload));
  const page = new ListPartsCommand({ ...upload, UploadId, MaxParts: 1 });
  await expect(s3.send(page)).rejects.toMatchObject({ $metadata: { httpStatusCode: 501 } });
  expect((await s3.send(new ListPartsCommand({ ...upload, UploadId }))).Parts ?? []).toEqual([]);
});

test.each([
  ["PUT", "location"],
  ["DELETE", "location"],
  ["GET", "location&versioning"],
])("%s of a bucket with ?%s is refused, not handled as if the query were absent", async (method, query) => {
  const authorization = `AWS4-HMAC-SHA256 Credential=${process.env["AWS_ACCESS_KEY_ID"]}/x, SignedHeaders=, Signature=`;
  const url = `${process.env["AWS_ENDPOINT_URL_S3"]}/mgrpo?${query}`;
  const { status } = await fetch(url, { method, headers: { authorization } });
  expect(status).toBe(501);
});

test("the error for a request without a usable Authorization header says what is missing; only an unknown key ID gives InvalidAccessKeyId", async () => {
  const url = `${process.env["AWS_ENDPOINT_URL_S3"]}/mgrpo`;
  const refusal = async (headers: Record<string, string>) => (await fetch(url, { headers })).text();
  expect(await refusal({})).toMatch(/AccessDenied.*the request has no Authorization header/s);
  expect(await refusal({ authorization: "Bearer x" })).toMatch(/AuthorizationHeaderMalformed.*names no access key ID/s);
  expect(await refusal({ authorization: "AWS4-HMAC-SHA256 Credential=OTHER/x" })).toMatch(/InvalidAccessKeyId/);
});
