/** @file The frames of an error's stack, read from the text that V8 writes. Pure. */

/**
 * `<path>:<line>:<column>` of each frame, innermost first. Code without a file, such as that in a `data:` URL, has none.
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
