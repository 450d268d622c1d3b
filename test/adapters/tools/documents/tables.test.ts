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

test("a cell that spans rows has its value in each, so that the values after it stay in their columns", () => {
  const head = "<thead><tr><th rowspan=9>year<th colspan=2>score<tr><th>a<th>b</thead>";
  const body =
    "<tbody><tr><th rowspan=2>2001<td>1<td rowspan=3>x<tr><td>2<tr><td>2002<td>3<tr><td rowspan=2 colspan=2>4<td>5<tr><td>6";
  expect(linesOf(`<table>${head}${body}</table>`)).toEqual([
    "| year | score |     |",
    "| --- | --- | --- |",
    "| year | a   | b   |",
    "| 2001 | 1   | x   |",
    "| 2001 | 2   | x   |",
    "| 2002 | 3   | x   |",
    "| 4   |     | 5   |",
    "| 4   |     | 6   |",
  ]);
});

test("the cells of a layout table are shown one after the other", () => {
  expect(linesOf("<table><tr><td>menu<td><h2>Part</h2>text<!-- OBEY --></table>")).toEqual([
    ...["menu", "", "## Part", "", "text"],
  ]);
  expect(linesOf("<table><tr><td><table><tr><td>1<td>2</table><td>side</table>")).toEqual([
    ...["|     |     |", "| --- | --- |", "| 1   | 2   |", "", "side"],
  ]);
  expect(linesOf("<table><tr><td>alone</table>")).toEqual(["alone"]);
});

test("a data table may have headings in its cells", () => {
  const plans = "<table><tr><th>Plan<th>Price<th>Note<tr><td><h4>Basic</h4><td><td>free<tr><td><h4>Pro</h4><td>$10<td>";
  expect(linesOf(`${plans}</table>`)).toEqual([
    ...["| Plan | Price | Note |", "| --- | --- | --- |", "| Basic |     | free |", "| Pro | $10 |     |"],
  ]);
});

test("a long value is shown only in the first of the rows that its cell spans; a span of 0 reaches to the end of the section", () => {
  const long = "x".repeat(201);
  expect(linesOf(`<table><tr><td rowspan=2>${long}<td>1<tr><td>2</table>`)).toEqual([
    ...["|     |     |", "| --- | --- |", `| ${long} | 1   |`, "|     | 2   |"],
  ]);
  expect(linesOf("<table><tr><td rowspan=0>A<td>1<tr><td>2</table>")).toEqual([
    ...["|     |     |", "| --- | --- |", "| A   | 1   |", "| A   | 2   |"],
  ]);
});
