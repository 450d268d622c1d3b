/** @file The frames of an error's stack, read from the text that V8 writes. Pure. */

/**
 * `<path>:<line>:<column>` of each frame, innermost first. Node's own modules have a name such as `node:internal/timers` in place of a path.
 * Frames without a location are left out, and so are those in a `data:` URL, in evaluated code, or in a path with parentheses.
 * @param toPath the path that a `file:` URL names, without its query.
 */
export function framesOf(error: unknown, toPath: (url: string) => string): string[] {
  const lines = error instanceof Error ? (error.stack ?? "").split("\n") : [];
  return lines.flatMap((line) => {
    // `    at name (<location>:<line>:<column>)`, or the same without name and parentheses.
    const [, location, position] = /^\s+at (?:async )?(?:.*\()?((?!data:)[^()]+)(:\d+:\d+)\)?$/.exec(line) ?? [];
    if (location === undefined) return [];
    return `${location.startsWith("file:") ? toPath(location) : location.replace(/\?.*/, "")}${position}`;
  });
}
