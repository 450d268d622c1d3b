/** @file Output that cannot be written. A run still drains its workers and saves its state. */
import { MgrpoError } from "../../core/errors.ts";
import { fail } from "./fail.ts";

let hasFailed = false;

/**
 * The reader of the output may end first: `| head`, Ctrl-C at `| tee` (EPIPE), a closed terminal that this program outlives, after `disown`
 * for example (EIO). That is not a failure. Any other error, such as a full disk's, ends the command as Ctrl-C does, with a message.
 */
export function handleOutputError(stream: NodeJS.WriteStream, error: NodeJS.ErrnoException): void {
  const isReaderGone = error.code === "EPIPE" || (error.code === "EIO" && stream.isTTY);
  if (isReaderGone || hasFailed) return;
  hasFailed = true;
  const isFull = error.code === "ENOSPC" || error.code === "EDQUOT";
  const remedy = isFull ? "free some space" : "send it elsewhere";
  fail(
    new MgrpoError(
      isFull ? "disk-full" : "storage-unwritable",
      `the output cannot be written (${error.code}): ${remedy}`,
    ),
  );
  process.kill(process.pid, "SIGINT");
}
