/** @file Rows, paragraphs and trees fit the terminal's width. Without a width, text is not wrapped. A long text is never cut within a surrogate pair. */
import { stripVTControlCharacters } from "node:util";
import { afterEach, expect, test } from "vitest";
import { drawText } from "../../cli/show/text.ts";
import { hanging, padColumns, row } from "../../cli/terminal/rows.ts";

const columns = process.stdout.columns;
afterEach(() => {
  process.stdout.columns = columns;
});

test("a row that does not fit puts its cells below its label", () => {
  const cells = ["held-out".padEnd(20), "78.0% [75.1, 80.6] over 3 runs", "1310 of 1680"] as const;
  process.stdout.columns = 80;
  expect(row(...cells)).toBe(`  ${cells.join("  ")}`);
  process.stdout.columns = 60;
  expect(row(...cells)).toBe("  held-out\n    78.0% [75.1, 80.6] over 3 runs  1310 of 1680");
  process.stdout.columns = 40;
  expect(row(...cells)).toBe("  held-out\n    78.0% [75.1, 80.6] over 3 runs\n    1310 of 1680");
});

test("text is measured in the terminal's columns, of which a Chinese character takes two", () => {
  expect(padColumns("首都在哪", 10)).toBe("首都在哪  ");
  expect(padColumns("cafe\u0301", 6)).toBe("cafe\u0301  ");
  expect(padColumns("首都在哪", 4)).toBe("首都在哪");
  // 2 columns of indent, 8 of the label, 2 between, 6 of the cell.
  process.stdout.columns = 17;
  expect(row("首都在哪", "100.0%")).toBe("  首都在哪\n    100.0%");
  process.stdout.columns = 18;
  expect(row("首都在哪", "100.0%")).toBe("  首都在哪  100.0%");
});

test("text wraps at words with a hanging indent, and not at all without a width", () => {
  process.stdout.columns = 30;
  expect(hanging("  ● ", "one two three four five six seven")).toEqual([
    "  ● one two three four five",
    "    six seven",
  ]);
  process.stdout.columns = 0;
  expect(hanging("  ", "x".repeat(200))).toEqual([`  ${"x".repeat(200)}`]);
});

test("a tree fits the terminal's width, and keeps its branch lines", () => {
  const leaf = { title: "answer", tags: [{ text: "word ".repeat(40), tone: "plain" as const }], children: [] };
  const tree = {
    title: "main",
    tags: [],
    note: "facts are shuffled",
    body: "word ".repeat(40),
    children: [leaf, leaf],
  };
  for (const width of [80, 60]) {
    process.stdout.columns = width;
    const lines = stripVTControlCharacters(drawText(tree)).split("\n");
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(width);
    expect(lines[1]).toBe("  note: facts are shuffled");
    expect(lines.filter((line) => line.startsWith("├─ answer"))).toHaveLength(1);
    expect(lines.find((_, i) => lines[i - 1]?.startsWith("├─"))).toMatch(/^│ +word/);
  }
});

test("a long text is cut before a surrogate pair, not within it", () => {
  process.stdout.columns = 0;
  const text = drawText({ title: "answer", tags: [], body: `${"x".repeat(399)}\u{1F600} and more`, children: [] });
  expect(stripVTControlCharacters(text)).toContain("x … (410 characters)");
});
