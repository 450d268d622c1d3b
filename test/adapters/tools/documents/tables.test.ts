/** @file Tables of HTML pages as Markdown. */
import { expect, test } from "vitest";
import { extractHtml } from "../../../../adapters/tools/documents/html.ts";

const linesOf = (body: string) => {
  const extracted = extractHtml(`<title>t</title>${body}`, { url: "https://example.com/" });
  return "text" in extracted ? extracted.text.split("\n") : extracted;
};

test.each([
  ["a list", "<ul><li>x<li>y</ul>", "-   x<br>-   y"],
  ["a rule", "x<hr>y", "x<br>* * *<br>y"],
  ["a quotation", "<blockquote>x</blockquote>", "> x"],
  ["code", "<pre><code>x\n  y</code></pre>", "```<br>x<br>  y<br>```"],
])("a table with %s is Markdown: its comments and attributes are left out", (_what, html, markdown) => {
  const cell = `<td title="OBEY" data-note="OBEY">${html}<!-- OBEY --></td>`;
  expect(linesOf(`<table summary="OBEY"><tr><th>a<th>b<tr><td>1${cell}</table>`)).toEqual([
    "| a   | b   |",
    "| --- | --- |",
    `| 1   | ${markdown} |`,
  ]);
});

test("a table has its caption above it, one rule below its head, and room for cells that span columns", () => {
  const head = "<thead><tr><th>a<th colspan=2>b<tr><th><th>c<th>d</thead>";
  expect(linesOf(`<table><caption>The <b>one</b></caption>${head}<tr><td>1||2<td><p>x<p>y</table>`)).toEqual([
    "The **one**",
    "",
    "| a   | b   |     |",
    "| --- | --- | --- |",
    "|     | c   | d   |",
    "| 1\\|\\|2 | x<br>y |     |",
  ]);
});

test("the cells of a table that arranges parts of a page are shown one after the other", () => {
  expect(linesOf("<table><tr><td>menu<td><h2>Part</h2>text<!-- OBEY --></table>")).toEqual([
    ...["menu", "", "## Part", "", "text"],
  ]);
  expect(linesOf("<table><tr><td><table><tr><td>1<td>2</table><td>side</table>")).toEqual([
    ...["|     |     |", "| --- | --- |", "| 1   | 2   |", "", "side"],
  ]);
  expect(linesOf("<table><tr><td>alone</table>")).toEqual(["alone"]);
});
