/** @file A fake Tinker server with a tiny model, an engine connected to it, and version 0; and how its tests read files and errors. */
import { expect } from "vitest";
import type { CheckpointFiles, PolicyEngine } from "../../../core/ports.ts";
import { wholeFile } from "../../../engine/checkpoint/files.ts";
import type { TransportOptions } from "../../../engine/tinker/client/transport.ts";
import { tinkerEngine } from "../../../engine/tinker/engine.ts";
import { readTinkerVersion, tinkerBase } from "../../../engine/tinker/version.ts";
import { FakeTinker, type FakeTinkerOptions } from "../../fakes/tinker-server.ts";
import { tinyCheckpoint } from "../tiny.ts";

export const POLICY = "tinker:http://127.0.0.1:9#tiny-qwen3";

export interface TinyTinker {
  readonly server: FakeTinker;
  readonly engine: PolicyEngine;
  /** Version 0, without weights. */
  readonly files: CheckpointFiles;
  /** Another process's engine on the same server. */
  connect(changes?: Partial<TransportOptions>): PolicyEngine;
  /** The files that the server saved for a version. */
  stateOf(saved: CheckpointFiles): CheckpointFiles;
}

export function tinyTinker(
  options: Omit<FakeTinkerOptions, "files"> & { readonly files?: CheckpointFiles },
): TinyTinker {
  const weights = options.files ?? tinyCheckpoint();
  const server = new FakeTinker({ ...options, files: weights });
  const connect = (changes: Partial<TransportOptions> = {}) =>
    tinkerEngine(POLICY, { fetch: server.fetch, pauseSeconds: 0.001, ...changes });
  return {
    server,
    connect,
    engine: connect(),
    files: tinkerBase(POLICY, "any", weights, [1, "main"]),
    stateOf(saved) {
      const { weights: path } = readTinkerVersion(saved);
      const checkpoint = server.models.saved.get(path ?? "");
      if (!checkpoint) throw new Error(`the server has no checkpoint '${path}'`);
      return checkpoint.files;
    },
  };
}

/** The code and message of the error that the work rejects with. */
export const errorOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => expect.fail("no error"),
    (error: Error & { code?: string }) => `${error.code}: ${error.message}`,
  );

export const bytesOf = (files: CheckpointFiles): Map<string, Uint8Array> =>
  new Map([...files].map(([name, file]) => [name, wholeFile(file)]));
