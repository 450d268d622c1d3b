/** @file A text of any length survives encryption and decryption, and what is not base64 is refused, as is an empty canary. */
import { expect, test } from "vitest";
import { decrypt, encrypt } from "../../../core/contracts/encryption.ts";

test("a text of four megabytes survives encryption and decryption", () => {
  const text = "a".repeat(4e6);
  expect(decrypt(encrypt(text, "canary"), "canary") === text).toBe(true);
});

test.each(["", "a", "ab", "abc", "abcd", "é€"])("'%s' survives encryption and decryption", (text) => {
  expect(decrypt(encrypt(text, "canary"), "canary")).toBe(text);
});

test("an empty canary, which would leave the text readable, is refused", () => {
  expect(() => encrypt("text", "")).toThrow(RangeError);
  expect(() => decrypt("dGV4dA==", "")).toThrow(RangeError);
});

test.each(["abc", "a===", "ab=c", "a b=", "abcde=", "====", "abc\n"])("%j, which is not base64, is refused", (text) => {
  expect(() => decrypt(text, "canary")).toThrow(expect.objectContaining({ code: "record-damaged" }));
});
