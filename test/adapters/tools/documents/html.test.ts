/** @file The title of an HTML page, and the time that its tables take. */
import { expect, test } from "vitest";
import { extractHtml } from "../../../../adapters/tools/documents/html.ts";

const titleOf = (head: string) => {
  const page = `${head}<body><svg><title>Logo</title></svg><p>text</p>`;
  const extracted = extractHtml(page, { url: "https://example.com/" });
  return "title" in extracted ? extracted.title : extracted;
};

test("the title is the page's own, not that of an SVG in it", () => {
  expect(titleOf("<title> Home </title>")).toBe("Home");
  expect(titleOf("")).toBe("");
});

test("a table of 4,000 rows and eight columns is read in less than 15 seconds of user CPU time", () => {
  const row = `<tr>${"<td>cell</td>".repeat(8)}</tr>`;
  const before = process.cpuUsage();
  const { text } = extractHtml(`<table>${row.repeat(4000)}</table>`, { url: "https://example.com/" }) as {
    text: string;
  };
  expect(text.split("\n")).toHaveLength(4002);
  expect(text).toMatch(/^\|( {5}\|){8}\n\|( --- \|){8}\n\|( cell \|){8}\n/);
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(15);
});
