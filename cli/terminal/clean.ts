/** @file Cleans text from models and web pages for a terminal: its escape sequences could repaint the screen. */

/** Replaces control characters, line breaks included, with spaces. */
export function clean(text: string): string {
  return text.replace(/[\p{Cc}\uFFFD]+/gu, " ");
}
