/** @file The search index: which titles come first, and which are excluded; `calculate`: it evaluates arithmetic and nothing else. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { calculate, calculateText } from "../../../adapters/tools/calculate.ts";
import { openSearchIndex } from "../../../adapters/tools/search.ts";

describe("search", () => {
  const index = openSearchIndex(
    new Map([
      ["Guinea", "Guinea\nBorders: [Mali], [Liberia]"],
      ["Equatorial Guinea", "Equatorial Guinea\nBorders: [Gabon]"],
      ["Mali", "Mali\nBorders: [Guinea], [Niger]"],
      ["Liberia", "Liberia\nBorders: [Guinea], [Sierra Leone]"],
      ["Senegal", "Senegal\nBorders: [Guinea], [Mali]"],
    ]),
  );
  test("one phrase: the page with that title comes first, before others that contain its words", () => {
    expect(index.titles("Guinea", 3)[0]).toBe("Guinea");
    expect(index.titles("equatorial guinea", 1)).toEqual(["Equatorial Guinea"]);
  });
  test("several phrases: the page that connects them comes first, and their own pages are excluded", () => {
    expect(index.titles("Guinea, Mali", 3)[0]).toBe("Senegal");
    expect(index.titles("Guinea, Mali", 9)).not.toContain("Guinea");
    expect(index.titles("Guinea, Mali", 9)).not.toContain("Mali");
  });
  test("there are at most as many titles as asked for, and none for unknown words or an empty query", () => {
    expect(index.titles("Guinea", 2)).toHaveLength(2);
    expect(index.titles("xyzzy", 3)).toEqual([]);
    expect(index.titles("", 3)).toEqual([]);
  });
  test("an accent matches in either encoding, and a combining mark is part of its word", () => {
    const accents = openSearchIndex(
      new Map([
        ["Sa\u0303o Tome\u0301", "a port"],
        ["\u0939\u093f\u0928\u094d\u0926\u0940", "a language"],
        ["\u0939", "a letter"],
      ]),
    );
    expect(accents.titles("s\u00e3o", 3)).toEqual(["Sa\u0303o Tome\u0301"]);
    expect(accents.titles("\u0939", 3)).toEqual(["\u0939"]);
  });
});

describe("calculate", () => {
  test.each([
    ["438 - 185", "253"],
    ["2 * (3 + 4)", "14"],
    ["-5 + 2", "-3"],
    ["10 / 4", "2.5"],
    ["0.1 + 0.2", "0.3"],
    ["438 - 185\n", "253"],
    ["\n2\n+ 3", "5"],
    ["2\n3", "not an arithmetic expression"],
    ["2\n(3)", "not an arithmetic expression"],
    ["(2 + 3)\n4", "not an arithmetic expression"],
    [" ", "not an arithmetic expression"],
    ["1 / 0", "no finite value"],
    ["2 +", "not an arithmetic expression"],
    ["2.*3", "not an arithmetic expression"],
    ["100./4", "not an arithmetic expression"],
    ["1 .* .5", "not an arithmetic expression"],
    ["Jordan + 2", "not an arithmetic expression"],
    ["import('fs')", "not an arithmetic expression"],
    ["", "not an arithmetic expression"],
    ["9".repeat(200), "the expression is longer than 100 characters"],
    ["x".repeat(200), "not an arithmetic expression"],
  ])("%s is %s", async (expression, value) => {
    expect(await calculate.run({ expression }, {} as never)).toBe(value);
  });
  test("sums and differences of integers from 0 to a million are exact", () => {
    const integer = fc.integer({ min: 0, max: 1e6 });
    fc.assert(
      fc.property(integer, integer, (a, b) => {
        expect(calculateText(`${a} + ${b}`)).toBe(String(a + b));
        expect(calculateText(`${a} - ${b}`)).toBe(String(a - b));
      }),
    );
  });
});
