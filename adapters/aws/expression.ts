/** @file Translates a `TableChange` into DynamoDB expressions. Placeholders stand for names and values: one per distinct name, one per value. */
import type { NativeAttributeValue } from "@aws-sdk/util-dynamodb";
import { MgrpoError } from "../../core/errors.ts";
import type { TableChange, TableCondition, TablePath, TableValue } from "../../core/ports.ts";

export interface Expressions {
  readonly update: string;
  readonly condition: string;
  /** `#0` -> attribute name. */
  readonly names: Record<string, string>;
  /** `:0` -> value, not yet marshaled. */
  readonly values: Record<string, NativeAttributeValue>;
}

/**
 * For example, `SET #0 = :0 ADD #1 :1 REMOVE #2.#3` with the condition `#0 = :2`. A change without an `equals` condition gets the condition
 * `attribute_exists(pk)`: an update never creates an item.
 */
export function expressionsOf(change: TableChange): Expressions {
  const names = new Map<string, string>();
  const values: NativeAttributeValue[] = [];
  const path = (steps: TablePath) => steps.map((name) => placeholder(names, name)).join(".");
  const value = (given: TableValue) => `:${values.push(given) - 1}`;
  const fragment = (condition: TableCondition) => conditionFragment(condition, path, value);

  const update = [
    clause(
      "SET",
      (change.set ?? []).map(([steps, given]) => `${path(steps)} = ${value(given)}`),
    ),
    clause(
      "ADD",
      (change.add ?? []).map(([steps, n]) => `${path(requireTopLevel(steps))} ${value(n)}`),
    ),
    clause("REMOVE", (change.remove ?? []).map(path)),
  ];
  // An `equals` condition implies that the item exists.
  const existence = change.when.some((condition) => "equals" in condition) ? [] : ["attribute_exists(pk)"];
  const condition = [...existence, ...change.when.map(fragment)];
  return {
    update: update.filter(Boolean).join(" "),
    condition: condition.join(" AND "),
    names: Object.fromEntries([...names].map(([name, short]) => [short, name])),
    values: Object.fromEntries(values.map((given, i) => [`:${i}`, given])),
  };
}

function conditionFragment(
  condition: TableCondition,
  path: (steps: TablePath) => string,
  value: (given: TableValue) => string,
): string {
  if ("exists" in condition) return `attribute_exists(${path(condition.exists)})`;
  if ("absent" in condition) return `attribute_not_exists(${path(condition.absent)})`;
  return `${path(condition.equals[0])} = ${value(condition.equals[1])}`;
}

const clause = (verb: string, actions: readonly string[]) => actions.length > 0 && `${verb} ${actions.join(", ")}`;

function placeholder(names: Map<string, string>, name: string): string {
  const short = names.get(name) ?? `#${names.size}`;
  names.set(name, short);
  return short;
}

/** DynamoDB's ADD takes top-level attributes, not paths into maps. */
function requireTopLevel(steps: TablePath): TablePath {
  if (steps.length === 1) return steps;
  throw new MgrpoError("record-damaged", `add ${steps.join(".")}: ADD takes top-level attributes only`);
}
