/**
 * @file Checks of arguments against the JSON Schemas of MCP servers. A hostile schema does not block the process, end it, or fill a conversation
 * with errors; arguments that cannot be checked pass. Ordinary schemas: recursion, unknown formats, tuples of two drafts, decimal multiples.
 */
import { expect, onTestFinished, test, vi } from "vitest";
import { validatedBy } from "../../../../adapters/tools/web/mcp/arguments.ts";
import type { McpTool } from "../../../../adapters/tools/web/mcp/results.ts";

const faultsOf = (schema: McpTool["schema"], value: unknown) =>
  validatedBy({ type: "object", ...schema }, "far_tool")
    .safeParse(value)
    .error?.issues.map(({ message }) => message);

test("arguments pass after a time limit if the references of their schema double at each of 40 levels", () => {
  const twice = (i: number) => ({ allOf: [{ $ref: `#/$defs/${i}` }, { $ref: `#/$defs/${i}` }] });
  const levels = Array.from({ length: 40 }, (_, i) => [i + 1, twice(i)] as const);
  const before = process.cpuUsage();
  expect(faultsOf({ $defs: { 0: { type: "object" }, ...Object.fromEntries(levels) }, ...twice(40) }, {})).toBe(
    undefined,
  );
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(5);
});

test("arguments pass if their schema refers to itself without end", () => {
  expect(faultsOf({ allOf: [{ $ref: "#" }] }, {})).toBe(undefined);
});

test("a schema that refers to itself for each level of the arguments checks every level", () => {
  const tree = { additionalProperties: false, properties: { left: { $ref: "#" } } };
  expect(faultsOf(tree, { left: { left: {} } })).toBe(undefined);
  expect(faultsOf(tree, { left: { left: { right: {} } } })).toEqual([
    "data/left/left must NOT have additional properties",
  ]);
});

test("a schema that declares itself asynchronous is checked like any other", () => {
  expect(faultsOf({ $async: true, required: ["x"] }, {})).toEqual(["data must have required property 'x'"]);
  expect(faultsOf({ $async: true, required: ["x"] }, { x: 1 })).toBe(undefined);
});

test("the fault names the first three errors, in at most 500 characters", () => {
  const required = (length: number) => Array.from({ length }, (_, i) => `k${i}`);
  expect(faultsOf({ required: required(10_000) }, {})).toEqual([
    [0, 1, 2].map((i) => `data must have required property 'k${i}'`).join(", "),
  ]);
  expect(faultsOf({ required: ["k".repeat(1e6)] }, {})?.join()).toHaveLength(500);
});

test("a schema that cannot be compiled is refused", () => {
  expect(() => validatedBy({ properties: { x: { $ref: "#/$defs/missing" } } }, "far_tool")).toThrow(
    /^tool 'far_tool': its JSON Schema cannot be used: can't resolve reference #\/\$defs\/missing/,
  );
});

test("an unknown format is not checked, and no warning is printed", () => {
  const warn = vi.spyOn(console, "warn");
  onTestFinished(() => warn.mockRestore());
  expect(faultsOf({ properties: { n: { type: "integer", format: "uint32" } } }, { n: -1 })).toBe(undefined);
  expect(warn).not.toHaveBeenCalled();
});

test("a tuple is checked in the syntax of JSON Schema 2020-12 and of draft 7; a schema of draft 7 can refer to that draft's own schema", () => {
  const [name, count] = [{ type: "string" }, { type: "integer" }];
  const tuples: McpTool["schema"][] = [
    { prefixItems: [name, count], items: false },
    { prefixItems: [name], items: count },
    { items: [name, count], additionalItems: false },
    { items: [name], additionalItems: count },
  ];
  for (const tuple of tuples) {
    expect(faultsOf({ properties: { pair: tuple } }, { pair: ["salt", 3] })).toBe(undefined);
    expect(faultsOf({ properties: { pair: tuple } }, { pair: [3, "salt"] })).not.toBe(undefined);
    expect(faultsOf({ properties: { pair: tuple } }, { pair: ["salt", "mine"] })).not.toBe(undefined);
  }
  const draft7 = "http://json-schema.org/draft-07/schema#";
  expect(
    faultsOf({ $schema: draft7, properties: { pair: { $ref: draft7 } } }, { pair: { type: "text" } }),
  ).toHaveLength(1);
});

test("the draft that a schema states decides, not text of its examples", () => {
  const pair = { prefixItems: [{ type: "string" }], default: { items: ["salt"] } };
  expect(faultsOf({ properties: { pair } }, { pair: [3] })).toEqual(["data/pair/0 must be string"]);
  const older = {
    $schema: "https://json-schema.org/draft/2019-09/schema",
    properties: { pair: { items: [{ type: "string" }] } },
  };
  expect(faultsOf(older, { pair: [3] })).toEqual(["data/pair/0 must be string"]);
  const draft4 = { $schema: "http://json-schema.org/draft-04/schema#", required: ["x"] };
  expect(faultsOf(draft4, {})).toEqual(["data must have required property 'x'"]);
});

test("19.99 is a multiple of 0.01", () => {
  const price = { properties: { usd: { type: "number", multipleOf: 0.01 } } };
  expect(faultsOf(price, { usd: 19.99 })).toBe(undefined);
  expect(faultsOf(price, { usd: 19.995 })).toEqual(["data/usd must be multiple of 0.01"]);
});
