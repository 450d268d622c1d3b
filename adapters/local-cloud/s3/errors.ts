/** @file S3's errors, by their own codes. */

import { type AuthenticationFault, AuthenticationError } from "../signature.ts";

const STATUS = {
  AccessDenied: 403,
  AuthorizationHeaderMalformed: 400,
  InvalidAccessKeyId: 403,
  BadDigest: 400,
  BucketAlreadyOwnedByYou: 409,
  BucketNotEmpty: 409,
  IncompleteBody: 400,
  InsufficientStorage: 507,
  InternalError: 500,
  InvalidArgument: 400,
  InvalidBucketName: 400,
  InvalidPart: 400,
  InvalidPartOrder: 400,
  InvalidRange: 416,
  KeyTooLongError: 400,
  MalformedXML: 400,
  MethodNotAllowed: 405,
  NoSuchBucket: 404,
  NoSuchKey: 404,
  NoSuchUpload: 404,
  NotImplemented: 501,
  PreconditionFailed: 412,
  RequestTimeTooSkewed: 403,
  SignatureDoesNotMatch: 403,
  XAmzContentSHA256Mismatch: 400,
} as const;

export class S3Error extends Error {
  readonly code: keyof typeof STATUS;
  readonly status: number;

  constructor(code: keyof typeof STATUS, message: string) {
    super(message);
    this.code = code;
    this.status = STATUS[code];
  }
}

const DISTRUST: Record<AuthenticationFault, keyof typeof STATUS> = {
  unsigned: "AccessDenied",
  malformed: "AuthorizationHeaderMalformed",
  "another-key": "InvalidAccessKeyId",
  "another-region": "AuthorizationHeaderMalformed",
  skewed: "RequestTimeTooSkewed",
  "body-unsigned": "NotImplemented",
  mismatch: "SignatureDoesNotMatch",
};

/** What to answer when a handler threw: a full disk is told from other faults. */
export function asS3Error(error: unknown): S3Error {
  if (error instanceof S3Error) return error;
  if (error instanceof AuthenticationError) return new S3Error(DISTRUST[error.reason], error.message);
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT") return new S3Error("InsufficientStorage", message);
  return new S3Error("InternalError", message);
}
