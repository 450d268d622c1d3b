/**
 * @file The hostile pages that the document reader can read: the text that it extracts, and what the agent gets instead.
 * test/adapters/tools/documents/hostile.long.test.ts covers the pages that it refuses.
 */
import { expect, test } from "vitest";
import { TOO_COMPLEX } from "../../adapters/tools/documents/document.ts";
import { openReader } from "../../adapters/tools/documents/reader.ts";
import { hostileDocuments, MAX_CHARACTERS, PAGE_URL, textFor } from "./hostile-pages.ts";

const REFUSED = "it needs too much memory or time";
const read = Object.entries(hostileDocuments).filter(([, { text }]) => text !== undefined);

test("the reader extracts the expected text from three hostile pages, but the agent gets the text of a refused page", async () => {
  const reader = openReader(120);
  for (const [name, { type, bytes, text }] of read) {
    const found = await reader.read({ url: PAGE_URL, type, bytes: bytes(), maxCharacters: MAX_CHARACTERS });
    expect([name, found]).toEqual([name, expect.objectContaining({ text })]);
    expect(textFor(found)).toBe(REFUSED);
  }
  expect(read.map(([name]) => name)).toEqual(["repeatedString", "longPage", "longBase"]);
  await reader.close();
});

test("the agent gets the reason why a page is refused; a text other than those of the hostile pages reaches the agent unchanged", () => {
  expect(textFor(TOO_COMPLEX)).toBe(REFUSED);
  expect(textFor({ unreadable: "it is a damaged PDF" })).toBe("it is a damaged PDF");
  expect(textFor({ title: "", text: "[page 1 of 1]\nA" })).toBe("[page 1 of 1]\nA");
});
