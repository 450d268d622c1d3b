/** @file Reads a checkpoint's files the same way in memory and on disk, and only the bytes that are needed. */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { errorText, MgrpoError } from "../../core/errors.ts";
import type { CheckpointFile } from "../../core/ports.ts";

export const sizeOf = (file: CheckpointFile): number => (file instanceof Uint8Array ? file.length : file.bytes);

export const wholeFile = (file: CheckpointFile): Uint8Array =>
  file instanceof Uint8Array ? file : readBytes(file, 0, new Uint8Array(file.bytes));

/** Changes when another file takes the path, or the file is written to. */
export function fileIdentity(path: string): string {
  const { dev, ino, size, mtimeNs } = statSync(path, { bigint: true });
  return [dev, ino, size, mtimeNs].join();
}

/** Maximum bytes of one read: Node.js cannot read 2 GiB or more in one call. */
const READ_BYTES = 2 ** 30;

/** Fills `into` with the file's bytes from `begin` on. The caller has checked the range against `sizeOf`. */
export function readBytes(file: CheckpointFile, begin: number, into: Uint8Array): Uint8Array {
  if (file instanceof Uint8Array) {
    into.set(file.subarray(begin, begin + into.length));
    return into;
  }
  let descriptor: number | undefined;
  try {
    descriptor = openSync(file.path, "r");
    for (let at = 0; at < into.length; ) {
      const count = readSync(descriptor, into, at, Math.min(into.length - at, READ_BYTES), begin + at);
      if (count === 0) throw new Error(`it ends before byte ${begin + into.length}: restore it`);
      at += count;
    }
    return into;
  } catch (cause) {
    const fault = errorText(cause);
    throw new MgrpoError("checkpoint-damaged", `${file.path} cannot be read: ${fault}`, { cause });
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
