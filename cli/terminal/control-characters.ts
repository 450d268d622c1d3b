/**
 * @file Cleans text from models, web pages and servers for a terminal: escape sequences could repaint the screen, and overrides of the
 * direction of text could make a line read as another.
 */

/** Embeddings, overrides and isolates. The marks that Arabic and Hebrew text needs (U+200E, U+200F, U+061C) stay. */
const DIRECTION = "\\u202A-\\u202E\\u2066-\\u2069";
const CONTROLS = new RegExp(`[\\p{Cc}\\uFFFD${DIRECTION}]+`, "gu");

/** Replaces each run of control characters (line breaks included), DIRECTION characters and U+FFFD with a space. */
export function stripControlCharacters(text: string): string {
  return text.replace(CONTROLS, " ");
}
