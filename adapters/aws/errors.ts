/** @file Translates the errors of the SDK, and decides whether a retry can help. */
import { type ErrorCode, isMgrpoError, MgrpoError } from "../../core/errors.ts";

/** An error of the SDK or of node:net. */
interface ForeignError {
  readonly name?: string;
  readonly code?: string;
  readonly message?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** The SDK's name for an error whose response states no code, such as the response to a HEAD request, which has no body. */
const NAMELESS = "Unknown";

const NETWORK =
  /^(ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|TimeoutError|NetworkingError|AbortError|ERR_STREAM_PREMATURE_CLOSE)$/;

interface ErrorRule {
  /** Matches `<name>: <message>` of the error. */
  readonly when: RegExp;
  readonly code: ErrorCode;
  /** Follows "the store at <endpoint> ". */
  readonly predicate: string;
  readonly retryable?: true;
}

/** The first match wins. */
const ERROR_RULES: readonly ErrorRule[] = [
  {
    when: /^(ResourceNotFoundException|NoSuchBucket):/,
    code: "not-found",
    predicate:
      "has no such table or bucket: check MGRPO_TABLE, MGRPO_BUCKET and AWS_REGION, or create them with `mgrpo cloud setup`",
  },
  { when: /^NoSuchKey:/, code: "not-found", predicate: "no longer has it" },
  {
    when: /key element does not match|missing the key|missed key schema|key condition not supported|type mismatch for key/i,
    code: "config-invalid",
    predicate: "has another program's table of this name, whose key is not (pk, sk): choose another MGRPO_TABLE",
  },
  {
    when: /^InvalidBucketName:|^EndpointError: Invalid ARN|at 'tableName' failed|Invalid table\/index name/,
    code: "config-invalid",
    predicate:
      "can have no table or bucket of this name: set MGRPO_TABLE and MGRPO_BUCKET to plain names, not to URLs, paths or ARNs",
  },
  { when: /^(ValidationException|SerializationException):/, code: "record-damaged", predicate: "cannot store this" },
  {
    when: /^CredentialsProviderError: .*aws sso login/,
    code: "store-unreachable",
    predicate: "requires credentials, and the profile's login is missing or has expired: run `aws sso login`",
  },
  {
    when: /^CredentialsProviderError:/,
    code: "store-unreachable",
    predicate:
      "requires credentials, and this process finds none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile that has them",
  },
  {
    when: /: Region is missing/,
    code: "config-invalid",
    predicate: "requires a region, and none is set: set AWS_REGION to the region of the table and the bucket",
  },
  {
    when: /: Region not accepted/,
    code: "config-invalid",
    predicate:
      "requires the name of a region: set AWS_REGION to the region of the table and the bucket, e.g. us-east-1",
  },
  {
    when: /ExpiredToken|TokenRefreshRequired/,
    code: "store-unreachable",
    predicate: "refused expired credentials: get new ones, AWS_SESSION_TOKEN included, and start again",
  },
  {
    // S3 has its own codes for clock skew; DynamoDB states it in the message.
    when: /RequestTimeTooSkewed|RequestExpired|RequestInTheFuture|Signature (expired|not yet current)/,
    code: "store-unreachable",
    predicate: "and this machine disagree on the time: set this machine's clock",
  },
  {
    when: /PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|region '[^']*' is wrong|valid region/,
    code: "store-unreachable",
    predicate: "is for another region: set AWS_REGION to the region of the table and the bucket",
  },
  {
    when: /Throttl|ProvisionedThroughputExceeded|RequestLimitExceeded|SlowDown|TooManyRequests/,
    code: "store-unreachable",
    predicate: "is throttling: wait, start fewer workers, or raise its limits",
    retryable: true,
  },
  {
    when: /^(RequestTimeout\w*|IncompleteBody):/,
    code: "store-unreachable",
    predicate: "did not get the whole request: the connection is slow, or was cut off",
    retryable: true,
  },
  {
    // A deletion of several keys can succeed and report this for one key: then there is no status.
    when: /^(InternalError|InternalServerError|ServiceUnavailable):/,
    code: "store-unreachable",
    predicate: "had an internal error: try again",
    retryable: true,
  },
  {
    when: /^OperationAborted:/,
    code: "store-unreachable",
    predicate: "is processing a conflicting request: try again",
    retryable: true,
  },
  {
    when: /^(AccessDenied\w*|AllAccessDisabled|AccountProblem):/,
    code: "store-unreachable",
    predicate: "forbids it: these credentials lack the permission, or the table or bucket belongs to another account",
  },
  {
    when: /Credential|UnrecognizedClient|InvalidAccessKeyId|Signature|MissingAuthenticationToken|InvalidToken/,
    code: "store-unreachable",
    predicate: "refused the credentials: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
  },
];

/** Errors of the local cloud about its own files. Their messages name the path and the remedy. */
const OWN_CODES: Readonly<Record<string, ErrorCode>> = {
  DamagedStorage: "record-damaged",
  UnwritableStorage: "storage-unwritable",
};

/**
 * Runs a store call. Rethrows any error as a MgrpoError that names the operation and, unless the local cloud's own files are at fault, the
 * endpoint. A MgrpoError is rethrown unchanged.
 */
export async function translated<T>(operation: string, endpoint: () => string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    throw translate(operation, endpoint(), cause);
  }
}

function translate(operation: string, endpoint: string, cause: unknown): MgrpoError {
  if (isMgrpoError(cause)) return cause;
  const error = cause as ForeignError;
  const name = error.name ?? "Error";
  const status = error.$metadata?.httpStatusCode ?? 0;
  // The SDK appends a line of advice to what it cannot parse.
  const [message = ""] = (error.message ?? "").split("\n", 1);
  const detail = [error.code ?? name, message].filter(Boolean).join(": ");
  if (OWN_CODES[name]) return new MgrpoError(OWN_CODES[name], `${operation}: ${message}`, { cause });
  const store = `${operation}: the store at ${endpoint}`;
  if (status === 507)
    return new MgrpoError(
      "disk-full",
      `${operation}: the disk of the store at ${endpoint} is full (${message}); free some space and run resume: nothing recorded is lost`,
      { cause },
    );
  const known = ERROR_RULES.find(({ when }) => when.test(`${name}: ${message}`));
  if (known) {
    const { code, predicate, retryable = false } = known;
    return new MgrpoError(code, `${store} ${predicate} (${detail})`, { cause, retryable });
  }
  if (status === 403 && name === NAMELESS)
    return new MgrpoError("store-unreachable", `${store} forbids it and gives no reason (${detail})`, { cause });
  // The response to a request that S3 refuses can break off, too.
  const hasNoAnswer = NETWORK.test(error.code ?? "") || NETWORK.test(name);
  if (status >= 400 && status < 500 && status !== 429 && !hasNoAnswer)
    return new MgrpoError("store-unreachable", `${store} refuses it (${status} ${detail})`, { cause });
  return new MgrpoError(
    "store-unreachable",
    `${operation}: no usable answer from the store at ${endpoint} (${detail}); ${remedyWithoutAnswer(endpoint)}`,
    { cause, retryable: hasNoAnswer || status === 429 || status >= 500 },
  );
}

/** An endpoint at AWS follows from the region: a host that does not exist means that the region does not. */
const remedyWithoutAnswer = (endpoint: string): string =>
  /\.amazonaws\.com/.test(endpoint)
    ? "check AWS_REGION, and this machine's connection to the internet"
    : "check that it is running, and check AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL_S3";
