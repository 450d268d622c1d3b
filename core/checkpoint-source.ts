/** @file The ports to checkpoints outside the store: base models, and the checkpoints that `mgrpo eval --watch` watches. */
import type { Part } from "./contracts/checkpoint.ts";
import type { CheckpointFiles, LocalFile } from "./policy-ports.ts";

/** Larger weight files stay where they are, and are not copied into a run's store. */
export const LARGE_FILE_BYTES = 64 * 2 ** 20;

/** A file outside the store. `stamp` (a time or an ETag) changes when the file's content does, even if its size does not. */
export interface FileState {
  readonly bytes: number;
  readonly stamp: string;
}

/** The checkpoints at a location: folder -> file -> its state. */
export type CheckpointListing = ReadonlyMap<string, ReadonlyMap<string, FileState>>;

/** A location where another program writes checkpoints, each a folder, file by file. An outage is a retryable MgrpoError. */
export interface CheckpointSource {
  /** Lists all folders, or only the given one. */
  list(folder?: string): Promise<CheckpointListing>;
  /** Reads files of a folder; large ones as files on this machine. `not-found` if one was deleted after it was listed. */
  read(folder: string, files: readonly string[]): Promise<CheckpointFiles>;
}

/** A part whose bytes are outside the store. */
export type ExternalPart = Part & { readonly origin: string };

/** Opens a part outside the store, verified against its hash. */
export type OpenExternalPart = (part: ExternalPart) => Promise<LocalFile>;
