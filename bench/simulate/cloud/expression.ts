/** @file The counterpart of adapters/aws/expression.ts: evaluates the expressions that it writes, on items in DynamoDB's format. */
import { isDeepStrictEqual } from "node:util";
import type { AttributeValue, UpdateItemCommandInput } from "@aws-sdk/client-dynamodb";

export type ItemAttributes = Record<string, AttributeValue>;

type Input = Pick<
  UpdateItemCommandInput,
  "UpdateExpression" | "ConditionExpression" | "ExpressionAttributeNames" | "ExpressionAttributeValues"
>;

/** Whether the condition, if there is one, holds for the item; undefined: the item does not exist. */
export function conditionHolds(input: Input, item: ItemAttributes | undefined): boolean {
  const path = (text: string) => at(item ?? {}, pathOf(text, input));
  const holds = (text: string): boolean => {
    const [, existing] = /^attribute_exists\((.+)\)$/.exec(text) ?? [];
    if (existing) return path(existing) !== undefined;
    const [, absent] = /^attribute_not_exists\((.+)\)$/.exec(text) ?? [];
    if (absent) return path(absent) === undefined;
    const [, left, right] = /^(\S+) = (\S+)$/.exec(text) ?? [];
    if (!left || !right) throw validationException(`unsupported condition '${text}'`);
    return isDeepStrictEqual(path(left), valueNamed(right, input));
  };
  return input.ConditionExpression?.split(" AND ").every(holds) ?? true;
}

/** Returns the updated item. `before` stays as it is. */
export function applyUpdate(input: Input, before: ItemAttributes): ItemAttributes {
  let item = before;
  const clauses = (input.UpdateExpression ?? "").matchAll(/(SET|ADD|REMOVE) (.+?)(?= (?:SET|ADD|REMOVE) |$)/g);
  for (const [, verb, list = ""] of clauses) {
    for (const action of list.split(", ")) {
      const [target = "", value] = action.split(verb === "SET" ? " = " : " ");
      const path = pathOf(target, input);
      if (verb === "SET") item = put(item, path, valueNamed(value, input));
      else if (verb === "REMOVE") item = put(item, path, undefined);
      else item = put(item, path, { N: String(Number(at(item, path)?.N ?? 0) + Number(valueNamed(value, input).N)) });
    }
  }
  return item;
}

/** The names along a path, which is written as `#0.#1` or as the name of an attribute. */
function pathOf(text: string, { ExpressionAttributeNames: names }: Input): string[] {
  return text.split(".").map((step) => {
    const name = step.startsWith("#") ? names?.[step] : step;
    if (name === undefined) throw validationException(`expression attribute name '${step}' is not defined`);
    return name;
  });
}

function valueNamed(placeholder: string | undefined, { ExpressionAttributeValues: values }: Input): AttributeValue {
  const value = placeholder === undefined ? undefined : values?.[placeholder];
  if (value === undefined) throw validationException(`expression attribute value '${placeholder}' is not defined`);
  return value;
}

function at(item: ItemAttributes, [first = "", ...rest]: string[]): AttributeValue | undefined {
  const value = item[first];
  return rest.length === 0 ? value : value?.M && at(value.M, rest);
}

/** Copies along the path; undefined removes the attribute. */
function put(item: ItemAttributes, [first = "", ...rest]: string[], value: AttributeValue | undefined): ItemAttributes {
  if (rest.length > 0) {
    const map = item[first]?.M;
    if (!map) throw validationException("The document path provided in the update expression is invalid for update");
    return { ...item, [first]: { M: put(map, rest, value) } };
  }
  if (value !== undefined) return { ...item, [first]: value };
  const { [first]: _taken, ...left } = item;
  return left;
}

export const validationException = (message: string) =>
  Object.assign(new Error(message), { name: "ValidationException" });
