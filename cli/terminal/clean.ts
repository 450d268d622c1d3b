/** @file Text of models and pages on its way to a terminal: escape sequences would let it repaint the reader's screen. */

/** Control characters, line breaks among them, as spaces. */
export function clean(text: string): string {
  return text.replace(/[\p{Cc}\uFFFD]+/gu, " ");
}
