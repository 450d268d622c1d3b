/** @file Documents made to break the reader, and a reader that is closed while it reads. */
import { zipSync } from "fflate";
import { expect, test } from "vitest";
import { TOO_COMPLEX } from "../../../adapters/tools/documents/document.ts";
import { extractHtml } from "../../../adapters/tools/documents/html.ts";
import { openReader } from "../../../adapters/tools/documents/reader.ts";
import { extractSpreadsheet } from "../../../adapters/tools/documents/spreadsheet.ts";

test("a workbook of thousands of parts, or of parts that would fill the memory, is not unpacked", async () => {
  const many = Object.fromEntries(Array.from({ length: 2001 }, (_, i) => [`${i}.xml`, new Uint8Array()]));
  expect(await extractSpreadsheet(zipSync(many))).toEqual(TOO_COMPLEX);
  const bomb = zipSync({ "a.xml": new Uint8Array(210e6) }, { level: 1 });
  expect(bomb.length).toBeLessThan(2e6);
  expect(await extractSpreadsheet(bomb)).toEqual(TOO_COMPLEX);
  expect(await extractSpreadsheet(zipSync({ "a.xml": new Uint8Array() }))).toEqual({
    unreadable: "it is a damaged spreadsheet",
  });
});

test("closing the reader is not reported as a fault of the document", async () => {
  const reader = openReader();
  const page = Buffer.from("<p>hello</p>");
  const reading = reader.read({ type: "text/html", url: "https://example.com/", bytes: page });
  const next = reader.read({ type: "text/html", url: "https://example.com/", bytes: page });
  const ends = Promise.allSettled([reading, next]);
  // After its thread has started.
  await new Promise((resolve) => setTimeout(resolve, 5));
  await reader.close();
  for (const end of await ends) expect(end).toMatchObject({ status: "rejected", reason: { code: "cancelled" } });
});

const textOf = (body: string) => {
  const extracted = extractHtml(`<title>t</title><p>before</p>${body}<p>after</p>`, "https://example.com/");
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
