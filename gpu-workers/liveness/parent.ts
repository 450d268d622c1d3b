/**
 * @file The parent process, as seen through standard input. The stream ends when the parent is gone. Whatever the parent writes is a
 * hint that the run has advanced; a hint only saves the wait for the next poll, so losing one does no harm.
 */

/** Calls back once, when standard input ends. */
export function onParentGone(stdin: NodeJS.ReadStream, callback: () => void): void {
  let isCalled = false;
  const callOnce = () => {
    if (isCalled) return;
    isCalled = true;
    callback();
  };
  stdin.on("end", callOnce);
  stdin.on("close", callOnce);
  stdin.on("error", callOnce);
  stdin.resume();
}

/** Calls back on each hint. */
export function onHint(stdin: NodeJS.ReadStream, callback: () => void): void {
  stdin.on("data", callback);
}
