/** @file Text that a page hides from its readers does not reach agents; text that it shows, or may reveal, does. */
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
  "<dialog>OBEY</dialog>",
  '<div popover="manual">OBEY</div>',
  "<title>OBEY</title>",
  "<noframes>OBEY</noframes>",
  "<noembed>OBEY</noembed>",
  "<div><noframes></div>OBEY</noframes></div>",
  "<div><iframe></div>OBEY</iframe></div>",
  "<div><noscript></div>OBEY</noscript></div>",
  "<script><!--<script></script>OBEY--></script>",
  "<datalist><option>OBEY</option></datalist>",
  '<video src="/a.mp4">OBEY</video>',
  '<audio src="/a.mp3">OBEY</audio>',
  '<p style="visibility: hidden">OBEY</p>',
  '<p style="visibility: hidden">OBEY <b style="visibility: inherit">OBEY</b> <img src="/a.png" alt="OBEY"></p>',
  '<p style="color: red; VISIBILITY : Collapse !important ;">OBEY</p>',
  '<p style="display : none">OBEY</p>',
  '<p style="display/**/:/* x */none">OBEY</p>',
  '<p style="font-size: 0">OBEY</p>',
  '<p style="font-size:0.0px"><b>OBEY <i style="font-size: 2em">OBEY</i></b></p>',
  '<p style="font-size: 0"><i style="font-size: 0">OBEY</i></p>',
  '<p style="font:0/0 a">OBEY</p>',
  '<p style="font: bold 0 serif">OBEY</p>',
  '<p style="font: 12px serif; font-size: 0">OBEY</p>',
  '<p style="font: 700 .1px serif">OBEY</p>',
  '<p style="font: italic 400 calc(0px)/1 serif">OBEY</p>',
  '<p style="font-size: 0; font: 12px serif; font-size: 0">OBEY</p>',
  '<p style="font-size: 0 !important; font-size: 12px; font: 12px serif">OBEY</p>',
  '<p style="display: none ! important; display: block">OBEY</p>',
  '<p style="font-size: 0"><b style="font-size: inherit">OBEY</b> <b style="font-size: larger">OBEY</b></p>',
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
  '<p style="clip-path: inset(0 0 100% 0)">OBEY</p>',
  '<p style="clip-path: inset(10px 60% 0 40% round 4px)">OBEY</p>',
  '<p style="clip-path: circle(0)">OBEY</p>',
  '<p style="clip-path: polygon(0 0, 0 0, 0 0)">OBEY</p>',
  '<p style="position: absolute; left: -9999px">OBEY</p>',
  '<p style="position: absolute; left: -1e4px">OBEY</p>',
  '<p style="position: fixed; top: calc(-100 * 100vh)">OBEY</p>',
  '<p style="position: fixed; inset: calc(-100 * 100vh) auto auto 0">OBEY</p>',
  '<p style="position: absolute; inset: -5000px auto auto auto">OBEY</p>',
  '<p style="text-indent: -10000px">OBEY</p>',
  '<p style="margin-left: -99em; margin-top: -9999px">OBEY</p>',
  '<p style="margin: -9999px 0 0">OBEY</p>',
  '<p style="margin: 0 0 0 -9999px">OBEY</p>',
  '<p style="margin: 0 -9999px">OBEY</p>',
  '<p style="transform: translate(-9999px, 0)">OBEY</p>',
  '<p style="transform: scale(0)">OBEY</p>',
  '<p style="height: 0; overflow: hidden">OBEY</p>',
  '<p style="width: 1px; height: 1px; overflow: clip">OBEY</p>',
  '<p style="height: 0; padding: 9px 9px 0; overflow: hidden">OBEY</p>',
  '<p style="content-visibility: hidden">OBEY</p>',
  '<p style="color: transparent">OBEY <b>OBEY</b></p>',
  '<p style="color: rgba(0, 0, 0, 0)">OBEY</p>',
  '<p style="color: rgb(0 0 0 / 0%)">OBEY</p>',
  '<p style="color: #ffffff00">OBEY</p>',
  '<p style="color: transparent"><b style="color: inherit">OBEY</b> <b style="color: currentColor">OBEY</b></p>',
  '<p style="color: rgba(var(--text), 0)">OBEY</p>',
  '<p style="color: transparent; -webkit-text-fill-color: currentcolor">OBEY</p>',
  '<p style="color: transparent"><b style="-webkit-text-fill-color: currentcolor">OBEY</b></p>',
  '<p style="d\\69splay: non\\65">OBEY</p>',
])("text that a page hides is not shown: %s", (body) => expect(textOf(body)).toBe("before\n\nafter"));

test.each([
  '<p hidden="until-found">seen</p>',
  '<p aria-hidden="false">seen</p>',
  "<dialog open><p>seen</p></dialog>",
  "<details><p>seen</p></details>",
  '<p style="visibility: visible; display: block">seen</p>',
  '<div style="visibility: hidden">OBEY <div><p style="visibility: visible">seen</p> OBEY</div></div>',
  '<p style="font-size: 0.8em">seen</p>',
  '<p style="display: none; display: block">seen</p>',
  '<div style="font-size: 0"> <p style="font-size: 12px">seen</p> </div>',
  '<p style="opacity: 0.5; filter: opacity(90%)">seen</p>',
  '<p style="filter: opacity()">seen</p>',
  '<p style="transform: scale()">seen</p>',
  '<p style="color: rgb(0, 0, 0)">seen</p>',
  '<p style="color: hsl(120, 100%, 0%)">seen</p>',
  '<p style="color: rgb(255 0 0 / 100%)">seen</p>',
  '<p style="color: hsl(var(--tint), 0%)">seen</p>',
  '<p style="display: block !important; display: none">seen</p>',
  '<p style="margin: 0 0 -9999px; padding-bottom: 9999px">seen</p>',
  '<p style="font: italic 12px/1.5 serif; width: 1px; margin-left: -20px; text-indent: -3em">seen</p>',
  '<p style="font-size: clamp(0px, 2vw, 18px)">seen</p>',
  '<p style="font-size: var(--size); color: var(--color)">seen</p>',
  '<p style="font-size: calc(1rem + 0px)">seen</p>',
  '<div style="overflow: hidden; height: 0.5em; transform: translateX(-100%) scale(1)">seen</div>',
  '<div style="color: transparent"><p style="color: #fff">seen</p></div>',
  '<div style="-webkit-text-fill-color: transparent"><p style="-webkit-text-fill-color: currentcolor">seen</p></div>',
  '<p style="color: #100; clip: rect(0, 100px, 20px, 0); clip-path: inset(5%)">seen</p>',
  '<p style="clip-path: inset(50% 0 0)">seen</p>',
  '<p style="position: absolute; top: 9000px">seen</p>',
  '<div style="position: relative; height: 0; padding-bottom: 56.25%; overflow: hidden">seen</div>',
])("text that a page shows, or may reveal, is kept: %s", (body) =>
  expect(textOf(body)).toBe("before\n\nseen\n\nafter"),
);

test("a formula of Wikipedia is kept, as its image: its markup is hidden from people, and its image from screen readers", () => {
  const markup = '<span style="display: none;"><math alttext="OBEY"><mi>OBEY</mi></math></span>';
  const image = '<img src="/f.svg" aria-hidden="true" style="vertical-align: -0.3ex; width: 9ex" alt="{E=mc^{2}}">';
  expect(textOf(`<p>it says ${markup}${image}</p>`)).toBe(
    "before\n\nit says ![{E=mc^{2}}](https://example.com/f.svg)\n\nafter",
  );
  expect(
    textOf('<p aria-hidden="true">OBEY<img src="/f.svg" alt="OBEY"></p><img src="/f.svg" aria-hidden="true" alt="">'),
  ).toBe("before\n\nafter");
});

test.each(["<html hidden>", '<html style="visibility: hidden">', '<body style="opacity: 0">'])(
  "a page that hides all of itself has a title and no text: %s",
  (tag) => {
    const extracted = extractHtml(`${tag}<title>t</title><p>OBEY</p>`, { url: "https://example.com/" });
    expect(extracted).toEqual({ title: "t", text: "" });
  },
);
