/**
 * @file An in-memory bucket with the S3 operations that adapters/aws/object-store.ts uses, except multipart uploads. It passes the contract
 * suite of object stores (test/contracts/simulated-cloud.test.ts).
 */
import { createHash } from "node:crypto";
import {
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { MgrpoError } from "../../../core/errors.ts";

export interface BucketUse {
  readonly operation: "PutObject" | "GetObject" | "HeadObject" | "DeleteObjects";
  /** For DeleteObjects, the first of its keys. */
  readonly key: string;
  /** Size of the body sent or received. */
  readonly bytes: number;
  /** False: a PUT found an existing object. */
  readonly applied: boolean;
  readonly tagged: boolean;
}

type Command = Parameters<S3Client["send"]>[0];

export interface MemoryBucket {
  /** `used` is also called if a read finds no object, or a PUT finds one. */
  send(command: Command, used: (use: BucketUse) => void): Promise<object>;
}

/** `created` is called with the key of each new object. */
export function openMemoryBucket(created: (key: string) => void): MemoryBucket {
  const objects = new Map<string, Uint8Array>();

  function put({ Key = "", Body, IfNoneMatch, Tagging }: PutObjectCommand["input"], used: (use: BucketUse) => void) {
    if (!(Body instanceof Uint8Array) || IfNoneMatch !== "*")
      throw unsupported("a PUT whose body is not bytes, or without If-None-Match: *");
    const applied = !objects.has(Key);
    used({ operation: "PutObject", key: Key, bytes: Body.length, applied, tagged: Tagging !== undefined });
    if (!applied) throw failure("PreconditionFailed", 412);
    objects.set(Key, Uint8Array.from(Body));
    created(Key);
    return {};
  }

  function get({ Key = "", Range }: GetObjectCommand["input"], used: (use: BucketUse) => void) {
    const found = objects.get(Key);
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(Range ?? "") ?? [];
    const body = from === undefined ? found : found?.subarray(Number(from), Number(to) + 1);
    used({ operation: "GetObject", key: Key, bytes: body?.length ?? 0, applied: true, tagged: false });
    if (!body) throw failure("NoSuchKey", 404);
    return { Body: { transformToByteArray: async () => Uint8Array.from(body) } };
  }

  function head({ Key = "" }: HeadObjectCommand["input"], used: (use: BucketUse) => void) {
    const found = objects.get(Key);
    used({ operation: "HeadObject", key: Key, bytes: 0, applied: true, tagged: false });
    if (!found) throw failure("NotFound", 404);
    return { ContentLength: found.length, ETag: `"${createHash("md5").update(found).digest("hex")}"` };
  }

  function remove({ Delete }: DeleteObjectsCommand["input"], used: (use: BucketUse) => void) {
    const keys = (Delete?.Objects ?? []).map(({ Key = "" }) => Key);
    used({ operation: "DeleteObjects", key: keys[0] ?? "", bytes: 0, applied: true, tagged: false });
    for (const key of keys) objects.delete(key);
    return {};
  }

  return {
    async send(command, used) {
      if (command instanceof PutObjectCommand) return put(command.input, used);
      if (command instanceof GetObjectCommand) return get(command.input, used);
      if (command instanceof HeadObjectCommand) return head(command.input, used);
      if (command instanceof DeleteObjectsCommand) return remove(command.input, used);
      throw unsupported(command.constructor.name);
    },
  };
}

const failure = (name: string, status: number) =>
  Object.assign(new Error(name), { name, $metadata: { httpStatusCode: status } });

const unsupported = (what: string) =>
  new MgrpoError("engine-unsupported", `the simulated bucket does not support ${what}`);
