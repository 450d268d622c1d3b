/**
 * @file What the process that started this one tells through our standard input: its end closes when it is gone, and whatever it writes
 * is a hint that the run moved. Hints only save the wait for the next poll; nothing rests on them.
 */

/** Calls back once, when standard input ends. */
export function onParentGone(stdin: NodeJS.ReadStream, gone: () => void): void {
  let told = false;
  const tell = () => {
    if (told) return;
    told = true;
    gone();
  };
  stdin.on("end", tell);
  stdin.on("close", tell);
  stdin.on("error", tell);
  stdin.resume();
}

/** Calls back at each hint. */
export function onHint(stdin: NodeJS.ReadStream, hint: () => void): void {
  stdin.on("data", hint);
}
