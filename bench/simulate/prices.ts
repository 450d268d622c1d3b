/**
 * @file List prices for us-east-1 in US dollars, without free tier, volume tiers, tax or discounts, collected in November 2026 from
 * documentation and articles (`source`, with its date if known). The price of point-in-time recovery is from memory. None is from an invoice:
 * check them against `page`.
 */

interface Price {
  /** Per unit. */
  readonly usd: number;
  readonly unit: string;
  /** AWS's authoritative page. */
  readonly page: string;
  /** The source of the figure. */
  readonly source: string;
}

const MILLION = 1e6;
const GIB = 2 ** 30;

const dynamoPage = "aws.amazon.com/dynamodb/pricing/on-demand";
const dynamoSource = "airbyte.com/data-engineering-resources/dynamodb-pricing, July 2025";
const s3Page = "aws.amazon.com/s3/pricing";
const s3Source = "c3x.dev/blog/s3-request-fees-explained";
const lambdaPage = "aws.amazon.com/lambda/pricing";
const lambdaSource = "cloudchipr.com/blog/aws-lambda-pricing, 2025";

export const PRICES = {
  dynamoWrite: { usd: 0.625 / MILLION, unit: "write unit, on demand", page: dynamoPage, source: dynamoSource },
  dynamoRead: { usd: 0.125 / MILLION, unit: "read unit, on demand", page: dynamoPage, source: dynamoSource },
  s3Write: { usd: 5 / MILLION, unit: "PUT", page: s3Page, source: s3Source },
  s3Read: { usd: 0.4 / MILLION, unit: "GET or HEAD", page: s3Page, source: s3Source },
  /** AWS's page prices S3 object events as opt-in data events, like custom events; some sources call them free. */
  event: {
    usd: 1 / MILLION,
    unit: "object event on EventBridge",
    page: "aws.amazon.com/eventbridge/pricing",
    source: "cloudburn.io/blog/amazon-eventbridge-pricing, March 2026",
  },
  queue: {
    usd: 0.4 / MILLION,
    unit: "SQS request",
    page: "aws.amazon.com/sqs/pricing",
    source: "cloudburn.io/blog/amazon-sqs-pricing, March 2026",
  },
  lambdaRequest: { usd: 0.2 / MILLION, unit: "invocation", page: lambdaPage, source: lambdaSource },
  lambdaSecond: { usd: 0.0000133334, unit: "GB-second, arm64", page: lambdaPage, source: lambdaSource },
  logs: {
    usd: 0.5 / GIB,
    unit: "byte of log",
    page: "aws.amazon.com/cloudwatch/pricing",
    source: "hykell.com/kb/platform-specific-guides/aws-cloudwatch-logs-pricing",
  },
  s3Month: { usd: 0.023 / GIB, unit: "byte-month", page: s3Page, source: "deepeshsoni.com/archives/256" },
  tagMonth: {
    usd: 0.01 / 10_000,
    unit: "tag-month",
    page: s3Page,
    source: "cloudmaterials.com/en/blog-entry/s3-object-tagging-overview",
  },
  /** 0.25 for the table (`source`, undated) and 0.20 for point-in-time recovery (from memory). */
  dynamoMonth: {
    usd: 0.45 / GIB,
    unit: "byte-month",
    page: dynamoPage,
    source: "aws.amazon.com/dynamodb/pricing",
  },
} as const satisfies Record<string, Price>;

/** Bytes of log that Lambda itself writes per invocation, in JSON (start, end, report). An assumption. */
export const LOG_BYTES = 1000;
/** Empty long polls of an idle queue by Lambda: five pollers, 20 s each. */
export const IDLE_POLLS_PER_SECOND = 5 / 20;
