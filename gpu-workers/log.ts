/** @file Log lines of a worker: one JSON object per line on stderr, `level` and `what` first. Callers never pass secrets. */
import { withPaths } from "../core/stack-frames.ts";

export interface Log {
  info(what: string, fields?: Record<string, unknown>): void;
  warn(what: string, fields?: Record<string, unknown>): void;
  error(what: string, fields?: Record<string, unknown>): void;
}

/** @param common fields of every line, such as the worker's id. */
export function createLog(write: (line: string) => void, common: Record<string, unknown> = {}): Log {
  const line =
    (level: string) =>
    (what: string, fields: Record<string, unknown> = {}) =>
      write(`${JSON.stringify({ level, what, ...common, ...fields })}\n`);
  return { info: line("info"), warn: line("warn"), error: line("error") };
}

/** The text of an error that may be a bug: its stack, which begins with its name and message. */
export const stackOf = (error: unknown): string =>
  error instanceof Error ? withPaths(error.stack ?? error.message) : String(error);
