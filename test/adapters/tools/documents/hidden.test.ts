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
])("text that a page hides is not shown: %s", (body) => expect(textOf(body)).toBe("before\n\nafter"));

test.each([
  '<p hidden="until-found">seen</p>',
  '<p aria-hidden="false">seen</p>',
  '<p style="visibility: visible; display: block">seen</p>',
  '<p style="font-size: 0.8em">seen</p>',
  '<p style="display: none; display: block">seen</p>',
  '<div style="font-size: 0"> <p style="font-size: 12px">seen</p> </div>',
  '<p style="opacity: 0">seen</p>',
])("text that a page shows, or may reveal, is kept: %s", (body) =>
  expect(textOf(body)).toBe("before\n\nseen\n\nafter"),
);
