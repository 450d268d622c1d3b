/** @file Digests of a body, computed while it streams and compared with those that the client declares. */
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { crc32 } from "node:zlib";
import { S3Error } from "./errors.ts";

interface Hasher {
  update(bytes: Uint8Array): void;
  base64(): string;
}

const hash = (name: string): Hasher => {
  const state = createHash(name);
  return { update: (bytes) => void state.update(bytes), base64: () => state.digest("base64") };
};

const ALGORITHMS: Record<string, () => Hasher> = {
  crc32() {
    let sum = 0;
    return {
      update(bytes) {
        sum = crc32(bytes, sum);
      },
      base64() {
        const bytes = Buffer.alloc(4);
        bytes.writeUInt32BE(sum);
        return bytes.toString("base64");
      },
    };
  },
  sha1: () => hash("sha1"),
  sha256: () => hash("sha256"),
};

const PREFIX = "x-amz-checksum-";
/** Headers with this prefix that are not checksums. */
const NOT_CHECKSUMS = new Set([`${PREFIX}mode`, `${PREFIX}algorithm`, `${PREFIX}type`]);

export interface BodyVerifier {
  update(bytes: Uint8Array): void;
  /**
   * Throws unless the body matches every digest that the headers declare or that x-amz-trailer announces. Returns the ETag,
   * and the x-amz-checksum-* digests by algorithm.
   */
  finish(trailers: ReadonlyMap<string, string>): { etag: string; checksums: Record<string, string> };
}

/**
 * Computes the ETag and every digest that the headers declare or announce. The ETag is the MD5. For a large object with a declared SHA-256
 * and no Content-MD5, it is derived from the SHA-256, in the form of a multipart upload's ETag, which no client mistakes for an MD5.
 */
export function openBodyVerifier(headers: IncomingHttpHeaders, isLarge = false): BodyVerifier {
  const trailing = String(headers["x-amz-trailer"] ?? "")
    .split(",")
    .map((name) => name.trim().toLowerCase());
  const named = [...Object.keys(headers), ...trailing].filter(
    (name) => name.startsWith(PREFIX) && !NOT_CHECKSUMS.has(name),
  );
  const sums = named.map((name) => [name.slice(PREFIX.length), openDigest(name.slice(PREFIX.length))] as const);
  const declaredSha256 = /^[0-9a-f]{64}$/.exec(String(headers["x-amz-content-sha256"]))?.[0];
  const md5 = isLarge && declaredSha256 && !headers["content-md5"] ? undefined : createHash("md5");
  const sha256 = declaredSha256 === undefined ? undefined : createHash("sha256");
  return {
    update(bytes) {
      md5?.update(bytes);
      sha256?.update(bytes);
      for (const [, sum] of sums) sum.update(bytes);
    },
    finish(trailers) {
      const digest = md5?.digest();
      if (sha256 && sha256.digest("hex") !== declaredSha256)
        throw new S3Error("XAmzContentSHA256Mismatch", "the body is not the one that was signed");
      if (digest) refuseMismatch("content-md5", headers["content-md5"], digest.toString("base64"));
      const checksums: Record<string, string> = {};
      for (const [algorithm, sum] of sums) {
        const computed = sum.base64();
        refuseMismatch(algorithm, headers[PREFIX + algorithm] ?? trailers.get(PREFIX + algorithm) ?? "none", computed);
        checksums[algorithm] = computed;
      }
      return { etag: digest?.toString("hex") ?? `${declaredSha256?.slice(0, 32)}-1`, checksums };
    },
  };
}

function openDigest(algorithm: string): Hasher {
  const open = ALGORITHMS[algorithm];
  if (open) return open();
  const supported = Object.keys(ALGORITHMS).join(", ");
  throw new S3Error("NotImplemented", `checksum ${algorithm} is not supported; use ${supported}`);
}

function refuseMismatch(what: string, declared: string | string[] | undefined, computed: string) {
  if (declared !== undefined && declared !== computed)
    throw new S3Error("BadDigest", `the body's ${what} is ${computed}, but the request declares ${declared}`);
}
