/** @file Routes the requests of the S3 API: buckets, objects, multipart uploads. Any other request gets a 501 instead of being ignored. */
import { rm } from "node:fs/promises";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { DiskSpace } from "../disk-space.ts";
import { S3Error } from "./errors.ts";
import { listPage } from "./list.ts";
import type { MultipartUploads } from "./multipart.ts";
import type { ObjectFiles } from "./object-files.ts";
import { receiveFile, receiveText } from "./receive.ts";
import { checksumHeaders, sendObject } from "./send-object.ts";
import { parseDelete, parseParts, toXml } from "./xml.ts";

export interface S3Services {
  readonly objects: ObjectFiles;
  readonly uploads: MultipartUploads;
  readonly space: DiskSpace;
}

export interface S3Request {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly bucket: string;
  readonly key: string;
  readonly query: URLSearchParams;
}

/** Headers that change the meaning of a write or a deletion and are not supported. */
const UNSUPPORTED_HEADERS = [
  "x-amz-copy-source",
  "if-match",
  "x-amz-write-offset-bytes",
  "x-amz-server-side-encryption-customer-algorithm",
];
const MAX_KEY_BYTES = 1024;

export async function route(services: S3Services, call: S3Request): Promise<void> {
  if (call.bucket === "") return listBuckets(services, call);
  if (call.key === "") return bucketRoute(services, call);
  if (Buffer.byteLength(call.key) > MAX_KEY_BYTES) throw new S3Error("KeyTooLongError", call.key);
  await services.objects.requireBucket(call.bucket);
  return call.query.has("uploads") || call.query.has("uploadId")
    ? uploadRoute(services, call)
    : objectRoute(services, call);
}

async function listBuckets({ objects }: S3Services, { request, response }: S3Request): Promise<void> {
  if (request.method !== "GET") throw unsupported(request);
  const Bucket = (await objects.buckets()).map((Name) => ({ Name, CreationDate: new Date(0).toISOString() }));
  send(response, 200, toXml("ListAllMyBucketsResult", { Owner: { ID: "local" }, Buckets: { Bucket } }));
}

async function bucketRoute({ objects }: S3Services, { request, response, bucket, query }: S3Request): Promise<void> {
  const subresources = [...query.keys()].filter((name) => !LIST_PARAMETERS.has(name));
  if (subresources.some((name) => BUCKET_SUBRESOURCES.get(name) !== request.method)) throw unsupported(request);
  if (request.method === "PUT") {
    await receiveText(request);
    await objects.createBucket(bucket);
    return send(response, 200, "", { location: `/${bucket}` });
  }
  await objects.requireBucket(bucket);
  if (request.method === "HEAD") return send(response, 200);
  if (request.method === "GET" && query.has("location")) return send(response, 200, toXml("LocationConstraint", {}));
  if (request.method === "GET") return send(response, 200, listPage(bucket, await objects.listObjects(bucket), query));
  if (request.method === "DELETE") {
    await objects.deleteBucket(bucket);
    return send(response, 204);
  }
  if (request.method !== "POST" || !query.has("delete")) throw unsupported(request);
  const { keys, quiet } = parseDelete(await receiveText(request));
  for (const key of keys) await objects.delete(bucket, key);
  send(response, 200, toXml("DeleteResult", quiet ? {} : { Deleted: keys.map((Key) => ({ Key })) }));
}

/** Subresources of a bucket, each with its only supported method. */
const BUCKET_SUBRESOURCES: ReadonlyMap<string, string> = new Map([
  ["location", "GET"],
  ["delete", "POST"],
]);

const LIST_PARAMETERS = new Set([
  "x-id",
  "list-type",
  "prefix",
  "delimiter",
  "max-keys",
  "continuation-token",
  "start-after",
  "encoding-type",
  "fetch-owner",
]);

/** `x-id` is the name of the operation, which the SDK adds. Any other parameter names a subresource, such as `tagging`, or changes the response. */
const OBJECT_PARAMETERS = new Set(["x-id"]);

async function objectRoute(
  { objects, space }: S3Services,
  { request, response, bucket, key, query }: S3Request,
): Promise<void> {
  if ([...query.keys()].some((name) => !OBJECT_PARAMETERS.has(name))) throw unsupported(request);
  if (request.method === "GET" || request.method === "HEAD") return sendObject(objects, bucket, key, request, response);
  if (request.method === "DELETE") {
    refuseUnsupportedHeaders(request);
    await objects.delete(bucket, key);
    return send(response, 204);
  }
  if (request.method !== "PUT") throw unsupported(request);
  const onlyIfAbsent = writeCondition(request);
  const received = await receiveFile(request, objects.temporary, space, "object");
  const headers = keptHeaders(request.headers);
  const metadata = await objects.commit(bucket, { key, received, headers, onlyIfAbsent });
  send(response, 200, "", { etag: `"${metadata.etag}"`, ...checksumHeaders(received.checksums) });
}

const UPLOAD_PARAMETERS = new Set([...OBJECT_PARAMETERS, "uploads", "uploadId", "partNumber"]);

async function uploadRoute({ objects, uploads, space }: S3Services, call: S3Request): Promise<void> {
  const { request, response, bucket, key, query } = call;
  if ([...query.keys()].some((name) => !UPLOAD_PARAMETERS.has(name))) throw unsupported(request);
  const id = query.get("uploadId") ?? "";
  if (request.method === "POST" && query.has("uploads")) {
    refuseUnsupportedHeaders(request);
    const UploadId = await uploads.begin({ bucket, key, headers: keptHeaders(request.headers) });
    return send(response, 200, toXml("InitiateMultipartUploadResult", { Bucket: bucket, Key: key, UploadId }));
  }
  if (request.method === "PUT") {
    writeCondition(request);
    const received = await receiveFile(request, objects.temporary, space, "part");
    await uploads
      .putPart(id, Number(query.get("partNumber")), received)
      .finally(() => rm(received.path, { force: true }));
    return send(response, 200, "", { etag: `"${received.etag}"`, ...checksumHeaders(received.checksums) });
  }
  if (request.method === "GET") {
    const Part = (await uploads.parts(id)).map((part) => ({
      PartNumber: part.number,
      ETag: `"${part.etag}"`,
      Size: part.size,
    }));
    return send(
      response,
      200,
      toXml("ListPartsResult", { Bucket: bucket, Key: key, UploadId: id, IsTruncated: false, Part }),
    );
  }
  if (request.method === "DELETE") {
    await uploads.abort(id);
    return send(response, 204);
  }
  if (request.method !== "POST") throw unsupported(request);
  const onlyIfAbsent = writeCondition(request);
  const metadata = await uploads.complete(id, parseParts(await receiveText(request)), onlyIfAbsent);
  send(response, 200, toXml("CompleteMultipartUploadResult", { Bucket: bucket, Key: key, ETag: `"${metadata.etag}"` }));
}

/** True for `If-None-Match: *`. Throws for any other value, and for unsupported headers. */
function writeCondition(request: IncomingMessage): boolean {
  refuseUnsupportedHeaders(request);
  const condition = request.headers["if-none-match"];
  if (condition !== undefined && condition !== "*")
    throw new S3Error("NotImplemented", `if-none-match: ${condition} is not supported; use *`);
  return condition === "*";
}

function refuseUnsupportedHeaders({ method, headers }: IncomingMessage): void {
  const name = UNSUPPORTED_HEADERS.find((one) => headers[one] !== undefined);
  if (name !== undefined) throw new S3Error("NotImplemented", `header ${name} is not supported on a ${method}`);
}

function keptHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const encoding = (headers["content-encoding"] ?? "").split(",").map((name) => name.trim());
  const kept = Object.entries(headers).filter(([name]) => name === "content-type" || name.startsWith("x-amz-meta-"));
  const rest = encoding.filter((name) => name !== "" && name !== "aws-chunked").join(",");
  return { ...(Object.fromEntries(kept) as Record<string, string>), ...(rest !== "" && { "content-encoding": rest }) };
}

const unsupported = (request: IncomingMessage) =>
  new S3Error("NotImplemented", `${request.method} ${request.url} is not supported by the local cloud`);

export function send(response: ServerResponse, status: number, xml = "", headers: Record<string, string> = {}): void {
  const body = xml === "" ? {} : { "content-type": "application/xml", "content-length": Buffer.byteLength(xml) };
  response.writeHead(status, { ...body, ...headers });
  response.end(xml === "" ? undefined : xml);
}
