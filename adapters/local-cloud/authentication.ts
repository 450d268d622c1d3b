/**
 * @file How the local cloud authenticates requests: what a verifier reads, why it refuses a request, and the verifier that compares only the
 * access key ID. The one that checks signatures is in signature.ts.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Credentials } from "./credentials.ts";

export interface ReceivedRequest {
  readonly method: string;
  /** Path and query as received, still encoded. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** Absent for S3, which checks the body against x-amz-content-sha256 while it streams. */
  readonly body?: Uint8Array;
}

/** Why a request is refused. Each API maps these to error codes of its own. */
export type AuthenticationFault =
  /** There is no Authorization header. */
  | "unsigned"
  /** The Authorization header or x-amz-date cannot be used, or the signature is for another service or does not cover a header that it must. */
  | "malformed"
  /** Signed with the key of another cloud. */
  | "another-key"
  | "another-region"
  /** The caller's clock is off, or this is a replay of an old request. */
  | "skewed"
  /** The signature does not cover the hash of the body. */
  | "body-unsigned"
  /** Signed with another secret, or altered in transit. */
  | "mismatch";

export class AuthenticationError extends Error {
  readonly reason: AuthenticationFault;

  constructor(reason: AuthenticationFault, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Resolves when the request comes from a holder of the keys; otherwise rejects with AuthenticationError. */
export type VerifyRequest = (request: ReceivedRequest) => Promise<void>;

/** Compares the access key ID only. A caller on 127.0.0.1 who can read the ID can read the secret, so a signature would prove no more. */
export function openKeyVerifier({ accessKeyId }: Credentials): VerifyRequest {
  return async ({ headers: { authorization } }) => {
    if (authorization === undefined)
      throw new AuthenticationError("unsigned", "the request has no Authorization header");
    const [, given] = /\bCredential=([^/]+)\//.exec(authorization) ?? [];
    if (given === undefined)
      throw new AuthenticationError("malformed", "the Authorization header names no access key ID");
    if (given !== accessKeyId) throw new AuthenticationError("another-key", "the access key ID is not this cloud's");
  };
}
