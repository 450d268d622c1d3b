/** @file S3's errors, by their own codes, and three of our own for faults of the disk and of the files on it. */
import { isMgrpoError } from "../../../core/errors.ts";
import { AuthenticationError, type AuthenticationFault } from "../authentication.ts";
import { storageFault } from "../storage-faults.ts";

const STATUS = {
  AccessDenied: 403,
  AuthorizationHeaderMalformed: 400,
  InvalidAccessKeyId: 403,
  BadDigest: 400,
  BucketAlreadyOwnedByYou: 409,
  BucketNotEmpty: 409,
  // Our own: damaged files. Not 5xx, which clients retry.
  DamagedStorage: 422,
  IncompleteBody: 400,
  // Our own: the disk or the quota is full.
  InsufficientStorage: 507,
  InternalError: 500,
  InvalidArgument: 400,
  InvalidBucketName: 400,
  InvalidPart: 400,
  InvalidPartOrder: 400,
  InvalidRange: 416,
  KeyTooLongError: 400,
  MalformedXML: 400,
  MaxMessageLengthExceeded: 400,
  MissingContentLength: 411,
  NoSuchBucket: 404,
  NoSuchKey: 404,
  NoSuchUpload: 404,
  NotImplemented: 501,
  PreconditionFailed: 412,
  RequestTimeTooSkewed: 403,
  SignatureDoesNotMatch: 403,
  // Our own: access to a file or folder is denied, or a file is where a folder should be.
  UnwritableStorage: 422,
  XAmzContentSHA256Mismatch: 400,
} as const;

export type S3ErrorCode = keyof typeof STATUS;

export class S3Error extends Error {
  readonly code: S3ErrorCode;
  readonly status: number;

  constructor(code: S3ErrorCode, message: string) {
    super(message);
    this.code = code;
    this.status = STATUS[code];
  }
}

const FAULT_CODES: Record<AuthenticationFault, S3ErrorCode> = {
  unsigned: "AccessDenied",
  malformed: "AuthorizationHeaderMalformed",
  "another-key": "InvalidAccessKeyId",
  "another-region": "AuthorizationHeaderMalformed",
  skewed: "RequestTimeTooSkewed",
  "body-unsigned": "NotImplemented",
  mismatch: "SignatureDoesNotMatch",
};

/** The error to respond with to a request whose handler threw. */
export function asS3Error(thrown: unknown): S3Error {
  if (thrown instanceof S3Error) return thrown;
  if (thrown instanceof AuthenticationError) return new S3Error(FAULT_CODES[thrown.reason], thrown.message);
  const fault = storageFault("the cloud's folder", thrown);
  const { message } = fault as Error;
  if (isMgrpoError(fault, "record-damaged")) return new S3Error("DamagedStorage", message);
  if (isMgrpoError(fault, "storage-unwritable")) return new S3Error("UnwritableStorage", message);
  if (isMgrpoError(fault, "disk-full")) return new S3Error("InsufficientStorage", (thrown as Error).message);
  return new S3Error("InternalError", message);
}
