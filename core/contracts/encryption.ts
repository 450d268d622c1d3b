/**
 * @file Text that must not be published in plain text, so that no crawler turns it into training data: XORed with its benchmark's canary, then
 * base64, as xbench does (github.com/xbench-ai/xbench-evals, xbench_evals.py). Anyone with the canary can read it: obfuscation, not secrecy.
 */
import { MgrpoError } from "../errors.ts";
import type { SuiteQuestions } from "./question.ts";

/** For text whose length is divisible by 4. The pattern has no repeated group, since one would exhaust the stack on a long text. */
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Throws a RangeError if the canary is empty, as `decrypt` does. */
export function encrypt(text: string, canary: string): string {
  const bytes = xor(new TextEncoder().encode(text), canary);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

/**
 * Throws `record-damaged`, without the text in the message, if it is not base64 or does not decrypt to UTF-8. A wrong canary may go
 * unnoticed: it turns ASCII into ASCII.
 */
export function decrypt(encrypted: string, canary: string): string {
  if (encrypted.length % 4 !== 0 || !BASE64.test(encrypted))
    throw new MgrpoError("record-damaged", "the text is not base64");
  const bytes = xor(
    Uint8Array.from(atob(encrypted), (character) => character.charCodeAt(0)),
    canary,
  );
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new MgrpoError("record-damaged", "the canary does not decrypt the text to UTF-8");
  }
}

/** Decrypts prompts and answers. Each question keeps the canary, which encrypts conversations about it. */
export function decryptQuestions(set: SuiteQuestions): SuiteQuestions {
  const { canary } = set;
  if (canary === undefined) return set;
  const questions = set.questions.map((question) => ({
    ...question,
    canary,
    prompt: decrypt(question.prompt, canary),
    answer: decrypt(question.answer, canary),
  }));
  return { ...set, questions };
}

/** The shortest quotation in bytes: three words of English, six characters of Chinese. Shorter matches may be coincidences. */
const QUOTE_BYTES = 18;

/**
 * Replaces quotations of a decrypted set's prompts and answers in a message with `…`: servers repeat their input in error messages. Quotations
 * shorter than `QUOTE_BYTES` stay, so a short answer is not hidden.
 */
export function quotationRedactor({ questions }: SuiteQuestions): (message: string) => string {
  const known = new Set(questions.flatMap(({ prompt, answer }) => [prompt, answer].flatMap(piecesOf)));
  return (message) => {
    const plain = unescaped(message);
    const quoted = new Set(piecesOf(plain).flatMap((piece, from) => (known.has(piece) ? from : [])));
    return quoted.size === 0 ? message : redacted(plain, quoted);
  };
}

/** The piece of `QUOTE_BYTES` bytes that starts at each byte. */
function piecesOf(text: string): string[] {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
  const count = Math.max(0, bytes.length - QUOTE_BYTES + 1);
  return Array.from({ length: count }, (_, from) => bytes.slice(from, from + QUOTE_BYTES));
}

/** Replaces quoted text with `…`. @param quoted byte offsets at which quoted pieces start. */
function redacted(text: string, quoted: ReadonlySet<number>): string {
  let kept = "";
  let byte = 0;
  let covered = 0;
  for (const character of text) {
    const next = byte + new TextEncoder().encode(character).length;
    for (; byte < next; byte++) if (quoted.has(byte)) covered = byte + QUOTE_BYTES;
    if (next > covered) kept += character;
    else if (!kept.endsWith("…")) kept += "…";
  }
  return kept;
}

/** Decodes JSON's `\uXXXX` and URLs' `%XX`. */
function unescaped(text: string): string {
  return text
    .replace(/\\u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
      const bytes = escapes.split("%").slice(1);
      return new TextDecoder().decode(Uint8Array.from(bytes, (byte) => Number.parseInt(byte, 16)));
    });
}

function xor(bytes: Uint8Array, canary: string): Uint8Array {
  if (canary === "") throw new RangeError("the canary is empty: it would encrypt nothing");
  const key = new TextEncoder().encode(canary);
  return bytes.map((byte, i) => byte ^ (key[i % key.length] as number));
}
