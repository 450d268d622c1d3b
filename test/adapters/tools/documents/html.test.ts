/** @file The title of an HTML page, its links, words, exponents and formulas, and the time that its tables take. */
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

test("words have no soft hyphens", () => {
  const html = "<title>\u00d6ster&shy;reich</title><p>Nieder\u00adoester&#173;reich";
  expect(extractHtml(html, { url: "https://example.com/" })).toEqual({
    title: "\u00d6sterreich",
    text: "Niederoesterreich",
  });
});

test("a formula that comes with its TeX source is shown as that source", () => {
  const parts = "<mrow><mn>3</mn><mo>·</mo><msup><mn>10</mn><mn>8</mn></msup></mrow>";
  const source = '<annotation encoding="application/x-tex"> 3 \\cdot 10^8 </annotation>';
  const html = `<p>about <math><semantics>${parts}${source}</semantics></math> m/s`;
  expect(extractHtml(html, { url: "https://example.com/" })).toMatchObject({ text: "about $3 \\cdot 10^8$ m/s" });
});

test("a link is shown as the address that it opens, even if that has parentheses", () => {
  const html = '<p><a href="/wiki/Mercury_(planet)?a=(b)">Mercury (planet)</a> <img src="(1).png" alt="1">';
  expect(extractHtml(html, { url: "https://example.com/" })).toEqual({
    title: "",
    text: "[Mercury (planet)](https://example.com/wiki/Mercury_%28planet%29?a=%28b%29) ![1](https://example.com/%281%29.png)",
  });
});

test.each([
  ["5.97 × 10<sup>24</sup> kg", "5.97 × 10^24 kg"],
  ["10<sup>-3</sup> m<sup>2</sup>", "10^-3 m^2"],
  ["2<sup>n</sup>, 2<sup><i>n</i> + 1</sup>", "2^n, 2^(n + 1)"],
  ["the 1<sup>st</sup> of Acme<sup>TM</sup>", "the 1st of AcmeTM"],
  ["XIX<sup>e</sup> siècle, N<sup>o</sup> 5, 3.<sup>a</sup>, M<sup>r</sup>", "XIXe siècle, No 5, 3.a, Mr"],
  ["2<sup>2<sup>n</sup></sup> and e<sup>−x<sup>2</sup></sup>", "2^(2^n) and e^(−x^2)"],
  ['8 billion<sup class="reference"><a href="#1">[1]</a></sup>', "8 billion[\\[1\\]](https://example.com/#1)"],
])("an exponent does not join the digits before it: %s", (html, markdown) => {
  expect(extractHtml(`<p>${html}`, { url: "https://example.com/" })).toEqual({ title: "", text: markdown });
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
