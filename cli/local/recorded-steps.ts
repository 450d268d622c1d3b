/**
 * @file Reads the steps of a local run: all of them, or the newest. Lines are appended to the file; any other change replaces the whole file. So
 * `readSteps` parses each line once per process: a dashboard that follows a run parses only what was added.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { StepSummary } from "../../core/monitoring/step-summary.ts";
import { parseDerivedText, type RunFolder, unreadable } from "./run-folder.ts";

interface ParsedSteps {
  /** Identifies the file that was read: a file that replaces it has a different identity. */
  readonly identity: string;
  /** Number of bytes parsed, up to the end of a line. */
  readonly bytes: number;
  readonly steps: readonly StepSummary[];
}

/** By path. */
const parsed = new Map<string, ParsedSteps>();

/** The recorded steps. A line that a kill cut short is dropped: its step is read from the records again. */
export function readSteps({ steps: path }: RunFolder): StepSummary[] {
  return (
    readOpened(path, (file) => {
      const { ino, birthtimeMs, size } = fstatSync(file);
      const identity = `${ino} ${birthtimeMs}`;
      const known = parsed.get(path);
      const before = known?.identity === identity && known.bytes <= size ? known : { identity, bytes: 0, steps: [] };
      const added = readRange(file, before.bytes, size);
      const end = added.lastIndexOf("\n") + 1;
      const lines = textOf(added.subarray(0, end)).split("\n").slice(0, -1);
      const parseLine = (line: string, i: number) => parseLineOf(path, line, `line ${before.steps.length + i + 1}`);
      const steps = [...before.steps, ...lines.map(parseLine)];
      parsed.set(path, { identity, bytes: before.bytes + end, steps });
      return [...steps];
    }) ?? []
  );
}

/** The newest step, from the end of the file: a list of runs need not read all steps of each. */
export function readNewestStep(folder: RunFolder): StepSummary | undefined {
  const path = folder.steps;
  return readOpened(path, (file) => {
    const { size } = fstatSync(file);
    const lines = textOf(readRange(file, Math.max(0, size - TAIL_BYTES), size)).split("\n");
    const isWhole = lines.length > 2 || size <= TAIL_BYTES;
    if (!isWhole) return readSteps(folder).at(-1);
    const line = lines.at(-2);
    return line === undefined ? undefined : parseLineOf(path, line, "last line");
  });
}

/** More than the length of a line with the histograms of a large team. */
const TAIL_BYTES = 1 << 16;

/** Without the byte order mark that some editors on Windows write. */
const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

const parseLineOf = (path: string, line: string, which: string) =>
  parseDerivedText(StepSummary, line, `${path}, ${which}`);

/** Undefined: there is no such file yet. */
function readOpened<T>(path: string, read: (file: number) => T): T | undefined {
  if (!existsSync(path)) return undefined;
  const file = openToRead(path);
  try {
    return read(file);
  } finally {
    closeSync(file);
  }
}

function openToRead(path: string): number {
  try {
    return openSync(path, "r");
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

function readRange(file: number, from: number, to: number): Buffer {
  const bytes = Buffer.alloc(to - from);
  return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, from));
}
