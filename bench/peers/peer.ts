/** @file A side of the comparison as seen from outside: a process that is asked for one lap at a time (laps.ts). */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { parseJson } from "../../core/contracts/parse.ts";
import { MgrpoError } from "../../core/errors.ts";
import { processTree } from "../process-tree.ts";
import { Lap } from "./laps.ts";

export interface Peer {
  /** Rejects with `process-failed` if the process ends instead of answering or cannot be started, and with `record-damaged` if its answer is not a lap. */
  lap(): Promise<Lap>;
  /** Peak resident memory so far: the sum over the processes that are alive now, each at its own peak. */
  peakBytes(): number;
  /** Closes the stdin of the process, and kills it if it has not exited after `CLOSE_SECONDS`. */
  close(): Promise<void>;
}

/** Characters of stderr kept in case the process fails. */
const TAIL = 2000;
const CLOSE_SECONDS = 20;

export function openPeer(name: string, program: string, args: readonly string[]): Peer {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
  const { stdin, stdout, stderr } = child;
  let tail = "";
  stderr.setEncoding("utf8").on("data", (text: string) => {
    tail = (tail + text).slice(-TAIL);
  });
  // Writing a request to a process that has ended fails; `ended` says why it ended.
  stdin.on("error", () => {});
  /** How the process ended. Its `close` event comes once all of its output has been read. */
  const ended = new Promise<string>((resolve) => {
    child.on("error", ({ message }) => resolve(`cannot be started: ${message}`));
    child.on("close", (code, signal) => {
      const how = signal ? `was killed by ${signal}` : `ended with exit code ${code}`;
      resolve(`${how} before it answered:\n${tail.trim()}`);
    });
  });
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  return {
    async lap() {
      stdin.write("lap\n");
      const { value, done } = await lines.next();
      if (done) throw new MgrpoError("process-failed", `${name} ${await ended}`);
      return parseJson(Lap, Buffer.from(value), `an answer from ${name}`);
    },
    peakBytes() {
      // A program that could not be started has no process id. Process 0 must not stand in for it: as the parent of the
      // machine's first processes, it would stand for all of them.
      const tree = child.pid === undefined ? [] : processTree(child.pid);
      return tree.reduce((total, { peakBytes }) => total + peakBytes, 0);
    },
    close: () => end(child, ended),
  };
}

async function end(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  child.stdin?.end();
  const timer = setTimeout(() => child.kill("SIGKILL"), 1000 * CLOSE_SECONDS);
  if (child.exitCode === null && child.signalCode === null) await ended;
  clearTimeout(timer);
}
