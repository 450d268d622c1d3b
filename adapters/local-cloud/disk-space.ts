/**
 * @file Free space on the disk, and an optional quota. Writes are refused before either is exhausted, so that they fail here, with a clear
 * error, and not inside the database.
 */
import { readdirSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { S3Error } from "./s3/errors.ts";

const RESERVE_MIB = 64;
const RESERVE_BYTES = RESERVE_MIB * 2 ** 20;
/** How long the measured free space is trusted. */
const FRESH_MS = 250;

/** Space for a write in progress: it stays reserved until the bytes are on the disk. */
export interface Reservation {
  /** Records that this many bytes have reached the disk. */
  wrote(bytes: number): void;
  /** Nothing more will be written. */
  end(): void;
}

export interface DiskSpace {
  /** Throws InsufficientStorage unless this many bytes fit. */
  reserve(bytes: number): Promise<Reservation>;
  /** Gives reserved bytes that were not written, or have been deleted, back to the quota. */
  release(bytes: number): void;
}

interface DiskSpaceState {
  /** Bytes counted against the quota: the last measurement, plus what was reserved since, minus what was released. */
  used: number;
  /** Bytes that fit on the disk, as last measured, minus what was reserved since. */
  free: { readonly bytes: number; readonly at: number };
  /** Bytes of all reservations that are not on the disk yet. */
  unwritten: number;
}

/**
 * `maxBytes`: a quota for the bytes in the directory's files, in addition to the disk's own limit. A write counts in full from when it begins.
 * Writes to the table add up, even those that replace an item, until a write would exceed the quota: then the files are measured, and it is refused
 * only if they leave no room for it.
 */
export async function openDiskSpace(directory: string, maxBytes = Number.POSITIVE_INFINITY): Promise<DiskSpace> {
  const state: DiskSpaceState = {
    used: maxBytes === Number.POSITIVE_INFINITY ? 0 : bytesUnder(directory),
    free: { bytes: 0, at: Number.NEGATIVE_INFINITY },
    unwritten: 0,
  };
  const openReservation = (bytes: number): Reservation => {
    let rest = bytes;
    const settle = (count: number) => {
      rest -= count;
      state.unwritten -= count;
    };
    state.unwritten += bytes;
    return { wrote: (count) => settle(Math.min(count, rest)), end: () => settle(rest) };
  };
  return {
    async reserve(bytes) {
      const known = state.free;
      if (performance.now() - known.at > FRESH_MS) {
        // The measurement may miss what is written meanwhile.
        const reserved = state.unwritten;
        const { bavail, bsize } = await statfs(directory);
        // A concurrent call may have measured, and reserved, meanwhile.
        if (state.free.at === known.at)
          state.free = { bytes: bavail * bsize - RESERVE_BYTES - reserved, at: performance.now() };
      }
      if (state.used + bytes > maxBytes) state.used = bytesUnder(directory) + state.unwritten;
      if (bytes > state.free.bytes)
        throw insufficient(
          `${directory}: ${bytes} bytes do not fit on the disk, where ${RESERVE_MIB} MiB must stay free`,
        );
      if (state.used + bytes > maxBytes)
        throw insufficient(`${directory}: ${bytes} more bytes would exceed its quota of ${maxBytes}`);
      state.free = { ...state.free, bytes: state.free.bytes - bytes };
      state.used += bytes;
      return openReservation(bytes);
    },
    release(bytes) {
      state.used -= bytes;
    },
  };
}

const insufficient = (message: string) => new S3Error("InsufficientStorage", message);

/** Synchronous, so no reservation or release can interleave with it. The database may delete a file meanwhile. */
function bytesUnder(directory: string): number {
  const names = readdirSync(directory, { recursive: true, encoding: "utf8" });
  const entries = names.map((name) => statSync(join(directory, name), { throwIfNoEntry: false }));
  return entries.reduce((total, entry) => total + (entry?.isFile() ? entry.size : 0), 0);
}
