/**
 * @file DynamoDB's limits on requests (docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html), and one on events. The simulated
 * cloud (bench/simulate/cloud) enforces all of them, the local cloud and the tests' memory store some. A query that exceeds its page is not
 * refused: it continues on the next page. The item limit is in core/contracts/bounds.ts.
 */
import type { UpdateItemCommandInput } from "@aws-sdk/client-dynamodb";

/** UTF-8 bytes of one expression, names and values not counted. */
const EXPRESSION_BYTES = 4096;
/** Operators and functions of one expression. */
const EXPRESSION_OPERATORS = 300;
/** Bytes of the items of one page of a query. */
export const PAGE_BYTES = 2 ** 20;
export const BATCH_READ_KEYS = 100;
/** Bytes of an EventBridge event, and of the SQS message that carries it. AWS accepts 1 MiB: this is stricter. */
export const EVENT_BYTES = 256 * 1024;

type RequestExpressions = Pick<UpdateItemCommandInput, "UpdateExpression" | "ConditionExpression">;

/** The error that DynamoDB gives if an expression of the request exceeds these limits. Undefined: none does. */
export function expressionFault(input: RequestExpressions): string | undefined {
  return faultOf("UpdateExpression", input) ?? faultOf("ConditionExpression", input);
}

function faultOf(name: keyof RequestExpressions, input: RequestExpressions): string | undefined {
  const text: unknown = input[name];
  // A request over HTTP may have any JSON value here. The code that executes it refuses what is not text.
  if (typeof text !== "string") return undefined;
  const bytes = Buffer.byteLength(text);
  if (bytes > EXPRESSION_BYTES)
    return `Invalid ${name}: Expression size has exceeded the maximum allowed size; expression size: ${bytes}`;
  const count = countOperators(text, name === "ConditionExpression");
  if (count > EXPRESSION_OPERATORS)
    return `Invalid ${name}: The expression contains too many operators; operator count: ${count}`;
  return undefined;
}

/** Counts operators and functions. `=` counts only in a condition: in a SET clause it assigns. */
function countOperators(text: string, isCondition: boolean): number {
  const operators = isCondition ? /\b(?:AND|OR|NOT|BETWEEN|IN)\b|<>|[<>]=?|=|\w+\(/g : / [+-] |\w+\(/g;
  return text.match(operators)?.length ?? 0;
}

/** Whether a table stores the number: DynamoDB refuses one closer to 0 than 1e-130, and its SDK one beyond the safe integers. */
export const isStorable = (value: number): boolean =>
  value === 0 || (Math.abs(value) >= 1e-130 && Math.abs(value) <= Number.MAX_SAFE_INTEGER);
