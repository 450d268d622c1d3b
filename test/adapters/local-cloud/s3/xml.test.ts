/** @file The XML that clients of S3 send: the keys to delete as they are, and no deletion that the request does not name. */
import { expect, test } from "vitest";
import { parseDelete } from "../../../../adapters/local-cloud/s3/xml.ts";

const deletion = (...objects: readonly string[]) =>
  `<Delete>${objects.map((object) => `<Object>${object}</Object>`).join("")}</Delete>`;

test("keys that look like numbers, and keys with markup, are deleted as they are", () => {
  const { keys, quiet } = parseDelete(deletion("<Key>1.0</Key>", "<Key>a &lt;b&gt;</Key>"));
  expect(keys).toEqual(["1.0", "a <b>"]);
  expect(quiet).toBe(false);
});

test.each([
  ["no key", "<VersionId>1</VersionId>"],
  ["an empty key", "<Key></Key>"],
  ["two keys", "<Key>b</Key><Key>c</Key>"],
  ["nothing", ""],
])("an object with %s is refused, and so is the whole request", (_, object) => {
  const refused = expect.objectContaining({ code: "MalformedXML" });
  expect(() => parseDelete(deletion("<Key>a</Key>", object))).toThrow(refused);
});
