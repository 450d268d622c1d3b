/** @file Fits text to the terminal: truncates it, or breaks it between its parts. Colors are added after measuring. */

export interface FlowPart {
  readonly text: string;
  readonly tone?: (text: string) => string;
}

/** Columns of the terminal; 80 if there is none or it reports no width (0), as on a serial console. */
export function terminalWidth(output: Pick<NodeJS.WriteStream, "columns"> = process.stdout): number {
  return output.columns || 80;
}

/** The text, truncated to a width. */
export function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

/**
 * Parts side by side with `gap` spaces between them, after `indent` columns that the caller has filled. A part that does not fit starts a
 * new, indented line; one that is wider than a line is not broken.
 */
export function flow(parts: readonly FlowPart[], indent: number, width: number, gap = 2): string {
  let used = indent;
  let text = "";
  for (const { text: part, tone = plain } of parts) {
    const isFirst = used === indent;
    if (!isFirst && used + gap + part.length > width) {
      text += `\n${" ".repeat(indent)}`;
      used = indent;
    } else if (!isFirst) {
      text += " ".repeat(gap);
      used += gap;
    }
    text += tone(part);
    used += part.length;
  }
  return text;
}

/** Prose, broken between words. */
export function flowWords(text: string, indent: number, width: number, tone = plain): string {
  const words = text.split(" ").map((word) => ({ text: word, tone }));
  return flow(words, indent, width, 1);
}

function plain(text: string): string {
  return text;
}
