/** @file The title of an HTML page. */
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
