/** @file The frames of an error's stack, read from the text that V8 writes, and that text for readers. Pure. */

/** The location itself may contain parentheses: `Program Files (x86)`. */
const NAMED_FRAME = /^\s+at .*? \((?<location>.+)(?<position>:\d+:\d+)\)$/;
const BARE_FRAME = /^\s+at (?:async )?(?<location>.+)(?<position>:\d+:\d+)$/;

/**
 * `<path>:<line>:<column>` of each frame, innermost first. Node's own modules have a name such as `node:internal/timers` in place of a path.
 * Frames without a location are left out, and so are those in a `data:` URL or in evaluated code.
 * @param toPath the path that a `file:` URL names, without its query.
 */
export function framesOf(error: unknown, toPath: (url: string) => string): string[] {
  const lines = error instanceof Error ? (error.stack ?? "").split("\n") : [];
  return lines.flatMap((line) => {
    const { location, position } = (NAMED_FRAME.exec(line) ?? BARE_FRAME.exec(line))?.groups ?? {};
    if (location === undefined || /^(?:data:|eval at )/.test(location)) return [];
    return `${location.startsWith("file:") ? toPath(location) : location.replace(/\?.*/, "")}${position}`;
  });
}

/** The `data:` URL in which tsx loads a TypeScript file whose package is CommonJS: the whole compiled file, then its path. */
const COMPILED = /data:text\/javascript,\S*\?filePath=(\S+?):\d+:\d+/g;

/** A stack with the paths of files in place of their compiled text. Their lines are left out: they are those of the compiled text. */
export const withPaths = (stack: string): string =>
  stack.replace(COMPILED, (_url, path: string) => decodeURIComponent(path).replace(/\?.*/, ""));
