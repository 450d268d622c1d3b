/** @file What the SDK's errors mean to the program: the one place that translates them. */
import { MgrpoError } from "../../core/errors.ts";

/** Of the SDK and of node:net. */
interface ForeignError {
  readonly name?: string;
  readonly code?: string;
  readonly message?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

const NETWORK =
  /^(ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|TimeoutError|NetworkingError|AbortError|ERR_STREAM_PREMATURE_CLOSE)$/;
const THROTTLED = /Throttl|ProvisionedThroughputExceeded|RequestLimitExceeded|SlowDown|TooManyRequests/;
const CREDENTIALS =
  /Credential|UnrecognizedClient|InvalidAccessKeyId|Signature|AccessDenied|MissingAuthenticationToken|InvalidToken/;
const EXPIRED = /ExpiredToken|TokenRefreshRequired/;
/** Of S3 by its name; DynamoDB says it in the message. */
const SKEWED = /RequestTimeTooSkewed|RequestExpired|RequestInTheFuture|Signature (expired|not yet current)/;
const ELSEWHERE =
  /PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|region '[^']*' is wrong|valid region/;
const MISSING = /^(ResourceNotFoundException|NoSuchBucket)$/;
const REFUSED = /^(ValidationException|SerializationException)$/;

/** Runs a store call; whatever it throws leaves as a MgrpoError that names the call and the endpoint. */
export async function translated<T>(doing: string, endpoint: () => string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    throw translate(doing, endpoint(), cause);
  }
}

/** Refusals with a remedy of their own. */
function refusalOf(text: string): string | undefined {
  if (/^CredentialsProviderError/.test(text))
    return "wants credentials, and this process has none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  if (EXPIRED.test(text)) return "says that the credentials have expired: get new ones, AWS_SESSION_TOKEN included";
  if (SKEWED.test(text))
    return "and this machine disagree on the time by more than 15 minutes: set this machine's clock";
  return ELSEWHERE.test(text) ? "is for another region: set AWS_REGION to that of the table and the bucket" : undefined;
}

function translate(doing: string, endpoint: string, cause: unknown): MgrpoError {
  if (cause instanceof MgrpoError) return cause;
  const error = cause as ForeignError;
  const name = error.name ?? "Error";
  const status = error.$metadata?.httpStatusCode ?? 0;
  const detail = [error.code ?? name, error.message].filter(Boolean).join(": ");
  if (status === 507)
    return new MgrpoError(
      "disk-full",
      `${doing}: the disk of the store at ${endpoint} is full (${error.message}); free some space and run resume, nothing recorded is lost`,
      { cause },
    );
  if (MISSING.test(name))
    return new MgrpoError(
      "not-found",
      `${doing}: the store at ${endpoint} has no such table or bucket: check MGRPO_TABLE and MGRPO_BUCKET, or make them with mgrpo cloud setup`,
      {
        cause,
      },
    );
  if (REFUSED.test(name))
    return new MgrpoError("record-damaged", `${doing}: the store refused it: ${error.message}`, { cause });
  const refusal = refusalOf(`${name}: ${error.message}`);
  if (refusal !== undefined)
    return new MgrpoError("store-unreachable", `${doing}: the store at ${endpoint} ${refusal} (${detail})`, { cause });
  if (status === 403 || CREDENTIALS.test(name))
    return new MgrpoError(
      "store-unreachable",
      `${doing}: the store at ${endpoint} refused the credentials (${detail}); check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
      { cause },
    );
  return new MgrpoError(
    "store-unreachable",
    `${doing}: no answer from the store at ${endpoint} (${detail}); check that it runs and AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_S3`,
    { cause, retryable: NETWORK.test(error.code ?? "") || NETWORK.test(name) || THROTTLED.test(name) || status >= 500 },
  );
}
