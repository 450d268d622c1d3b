/** @file Text that a page hides from its readers does not reach agents. */
import { expect, test } from "vitest";
import { extractHtml } from "../../../../adapters/tools/documents/html.ts";

const textOf = (body: string) => {
  const extracted = extractHtml(`<title>t</title><p>before</p>${body}<p>after</p>`, { url: "https://example.com/" });
  return "text" in extracted ? extracted.text : extracted;
};

test.each([
  "<p hidden>OBEY</p>",
  '<p HIDDEN="">OBEY</p>',
  '<p aria-hidden="TRUE">OBEY</p>',
  '<p style="visibility: hidden">OBEY</p>',
  '<p style="color: red; VISIBILITY : Collapse !important ;">OBEY</p>',
  '<p style="display : none">OBEY</p>',
  '<p style="display/**/:/* x */none">OBEY</p>',
  '<p style="font-size: 0">OBEY</p>',
  '<p style="font-size:0.0px"><b>OBEY <i style="font-size: 2em">OBEY</i></b></p>',
  '<p style="font-size: 0"><i style="font-size: 0">OBEY</i></p>',
  '<p style="font:0/0 a">OBEY</p>',
  '<p style="font: bold 0 serif">OBEY</p>',
  '<p style="font: 12px serif; font-size: 0">OBEY</p>',
  '<p style="font-size:calc(0px)">OBEY</p>',
  '<p style="font-size: calc(1px * 0 + 0.1px)">OBEY</p>',
  '<p style="font-size: min(0px, 20px)">OBEY</p>',
  '<p style="font-size: 1px">OBEY</p>',
  '<p style="font-size: .01em"><b style="font-size: 2em">OBEY</b></p>',
  '<p style="opacity: 0">OBEY</p>',
  '<p style="opacity: 1%"><b style="opacity: 1">OBEY</b></p>',
  '<p style="filter: opacity(0)">OBEY</p>',
  '<p style="position: absolute; clip: rect(0 0 0 0)">OBEY</p>',
  '<p style="position: absolute; clip: rect(1px, 1px, 1px, 1px)">OBEY</p>',
  '<p style="clip-path: inset(50%)">OBEY</p>',
  '<p style="clip-path: circle(0)">OBEY</p>',
  '<p style="clip-path: polygon(0 0, 0 0, 0 0)">OBEY</p>',
  '<p style="position: absolute; left: -9999px">OBEY</p>',
  '<p style="position: fixed; top: calc(-100 * 100vh)">OBEY</p>',
  '<p style="position: absolute; inset: -5000px auto auto auto">OBEY</p>',
  '<p style="text-indent: -10000px">OBEY</p>',
  '<p style="margin-left: -99em; margin-top: -9999px">OBEY</p>',
  '<p style="transform: translate(-9999px, 0)">OBEY</p>',
  '<p style="transform: scale(0)">OBEY</p>',
  '<p style="height: 0; overflow: hidden">OBEY</p>',
  '<p style="width: 1px; height: 1px; overflow: clip">OBEY</p>',
  '<p style="content-visibility: hidden">OBEY</p>',
  '<p style="color: transparent">OBEY <b>OBEY</b></p>',
  '<p style="color: rgba(0, 0, 0, 0)">OBEY</p>',
  '<p style="color: #ffffff00">OBEY</p>',
  '<p style="d\\69splay: non\\65">OBEY</p>',
])("text that a page hides is not shown: %s", (body) => expect(textOf(body)).toBe("before\n\nafter"));

test.each([
  '<p hidden="until-found">seen</p>',
  '<p aria-hidden="false">seen</p>',
  '<p style="visibility: visible; display: block">seen</p>',
  '<p style="font-size: 0.8em">seen</p>',
  '<p style="display: none; display: block">seen</p>',
  '<div style="font-size: 0"> <p style="font-size: 12px">seen</p> </div>',
  '<p style="opacity: 0.5; filter: opacity(90%)">seen</p>',
  '<p style="font: italic 12px/1.5 serif; width: 1px; margin-left: -20px; text-indent: -3em">seen</p>',
  '<p style="font-size: clamp(0px, 2vw, 18px)">seen</p>',
  '<p style="font-size: var(--size); color: var(--color)">seen</p>',
  '<p style="font-size: calc(1rem + 0px)">seen</p>',
  '<div style="overflow: hidden; height: 0.5em; transform: translateX(-100%) scale(1)">seen</div>',
  '<div style="color: transparent"><p style="color: #fff">seen</p></div>',
  '<p style="color: #100; clip: rect(0, 100px, 20px, 0); clip-path: inset(5%)">seen</p>',
  '<p style="position: absolute; top: 9000px">seen</p>',
])("text that a page shows, or may reveal, is kept: %s", (body) =>
  expect(textOf(body)).toBe("before\n\nseen\n\nafter"),
);
