/** @file Rows and paragraphs that fit the terminal. A width of 0 or undefined, as with a pipe, disables wrapping. */
import stringWidth from "string-width";
import wrapAnsi from "wrap-ansi";

/**
 * A label and its cells, two spaces apart, indented by two. If the row does not fit, the cells follow below the label: on one line if they fit,
 * else one per line.
 */
export function row(label: string, ...cells: readonly string[]): string {
  const whole = `  ${[label, ...cells].join("  ")}`;
  const width = rowWidth();
  if (stringWidth(whole) <= width) return whole;
  const rest = cells.join("  ");
  const lines = stringWidth(rest) + 4 <= width ? [rest] : cells;
  return [`  ${label.trimEnd().replace(/ {3,}/g, "  ")}`, ...lines.map((line) => `    ${line}`)].join("\n");
}

/** A text after a prefix, wrapped at words; later lines are indented by `indent`, or by the width of the prefix. */
export function hanging(prefix: string, text: string, indent = " ".repeat(stringWidth(prefix))): string[] {
  const width = rowWidth() - Math.max(stringWidth(prefix), stringWidth(indent));
  // No terminal, or one too narrow for words: not wrapped here.
  const lines =
    width < 20 || width === Number.POSITIVE_INFINITY ? [text] : wrapAnsi(text, width, { hard: true }).split("\n");
  return lines.map((line, i) => `${i === 0 ? prefix : indent}${line}`);
}

export const rowWidth = (): number => process.stdout.columns || Number.POSITIVE_INFINITY;

/** The text, padded with spaces to `width` columns of the terminal. A Chinese character or an emoji takes two, a combining mark none. */
export const padColumns = (text: string, width: number): string =>
  text + " ".repeat(Math.max(0, width - stringWidth(text)));
