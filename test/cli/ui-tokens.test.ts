/** @file The text that each token of a trajectory adds, where each token is a byte. */
import { expect, test } from "vitest";
import { textsOf } from "../../cli/ui/tokens.ts";

/** The texts, and the number of tokens decoded for them. */
function read(bytes: readonly number[]) {
  let decoded = 0;
  const decode = (tokens: readonly number[]) => {
    decoded += tokens.length;
    return new TextDecoder().decode(Uint8Array.from(tokens));
  };
  return { texts: textsOf(bytes, { decode }), decoded };
}
const bytesOf = (text: string) => [...new TextEncoder().encode(text)];

test("a character of several tokens belongs to the last of them", () => {
  expect(read(bytesOf("aé😀b")).texts).toEqual(["a", "", "é", "", "", "", "😀", "b"]);
  const text = "Die Straße führt über die Brücke 😀😀😀 nach Köln.";
  expect(read(bytesOf(text)).texts.join("")).toBe(text);
});

test("a trajectory that ends inside a character shows its bytes as U+FFFD", () => {
  expect(read(bytesOf("a😀").slice(0, 3)).texts).toEqual(["a", "", "\uFFFD"]);
});

test("a character of several tokens is whole, however many invalid bytes precede it", () => {
  expect(read([0xff, ...bytesOf("😀b")]).texts).toEqual(["", "\uFFFD", "", "", "😀", "b"]);
  for (let count = 0; count < 40; count++) {
    const bytes = [...Array<number>(count).fill(0xff), ...bytesOf("😀, 京")];
    expect(read(bytes).texts.join("")).toBe(`${"\uFFFD".repeat(count)}😀, 京`);
  }
});

test("thousands of invalid bytes are all shown, and each is decoded fewer than 20 times on average", () => {
  const count = 5000;
  const { texts, decoded } = read(Array.from({ length: count }, () => 0xff));
  expect(texts.join("")).toBe("\uFFFD".repeat(count));
  expect(decoded).toBeLessThan(20 * count);
});
