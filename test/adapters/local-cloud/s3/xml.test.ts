/** @file The XML that S3 clients send: keys are text, and a malformed or unsupported deletion is refused. */
import { expect, test } from "vitest";
import { parseDelete, parseParts } from "../../../../adapters/local-cloud/s3/xml.ts";

const deletion = (...objects: readonly string[]) =>
  `<Delete>${objects.map((object) => `<Object>${object}</Object>`).join("")}</Delete>`;

test("keys that look like numbers stay text, and escaped markup in keys is unescaped", () => {
  const { keys, quiet } = parseDelete(deletion("<Key>1.0</Key>", "<Key>a &lt;b&gt;</Key>"));
  expect(keys).toEqual(["1.0", "a <b>"]);
  expect(quiet).toBe(false);
});

test.each([
  ["no key", "<VersionId>1</VersionId>"],
  ["an empty key", "<Key></Key>"],
  ["two keys", "<Key>b</Key><Key>c</Key>"],
  ["nothing", ""],
])("a deletion is refused as a whole if it lists an object with %s", (_, object) => {
  const refused = expect.objectContaining({ code: "MalformedXML" });
  expect(() => parseDelete(deletion("<Key>a</Key>", object))).toThrow(refused);
});

test.each([
  ["a version", "<VersionId>1</VersionId>"],
  ["a condition", '<ETag>"900150983cd24fb0d6963f7d28e17f72"</ETag>'],
])("a deletion with %s is refused, not done without it", (_, more) => {
  const refused = expect.objectContaining({ code: "NotImplemented" });
  expect(() => parseDelete(deletion(`<Key>a</Key>${more}`))).toThrow(refused);
});

test("line breaks between elements are ignored", () => {
  expect(parseDelete("<Delete>\n<Object>\n<Key>a</Key>\n</Object>\n</Delete>").keys).toEqual(["a"]);
});

test("a body that is cut off within a tag is a client error, not a server error, which clients would retry", () => {
  const refused = expect.objectContaining({ code: "MalformedXML", status: 400 });
  expect(() => parseDelete("<Delete><Object><Key>a</Key")).toThrow(refused);
  expect(() => parseParts("<CompleteMultipartUpload><Part")).toThrow(refused);
});
