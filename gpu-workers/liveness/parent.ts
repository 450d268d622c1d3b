/** @file Noticing that the process which started this one is gone: its end of our standard input closes. */

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
