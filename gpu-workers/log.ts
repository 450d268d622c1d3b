/** @file Log lines of a worker: one JSON object per line on stderr, `level` and `what` first. Nothing secret is ever passed in. */

export interface Log {
  info(what: string, fields?: Record<string, unknown>): void;
  warn(what: string, fields?: Record<string, unknown>): void;
  error(what: string, fields?: Record<string, unknown>): void;
}

/** `always` is repeated on every line: who speaks. */
export function createLog(write: (line: string) => void, always: Record<string, unknown> = {}): Log {
  const line =
    (level: string) =>
    (what: string, fields: Record<string, unknown> = {}) =>
      write(`${JSON.stringify({ level, what, ...always, ...fields })}\n`);
  return { info: line("info"), warn: line("warn"), error: line("error") };
}
