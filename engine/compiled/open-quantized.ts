/**
 * @file The quantized base models of this process: each is computed once, in an engine thread, into a temporary file that samplers and trainers
 * of all versions memory-map. The files are deleted when the process exits; those of a killed process, when the next one creates its own.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { CheckpointFiles } from "../../core/ports.ts";
import { readModelConfig } from "../checkpoint/config.ts";
import { fileIdentity } from "../checkpoint/files.ts";
import { linearParameters, parameterLayout } from "../checkpoint/parameters.ts";
import { locateParameters } from "../checkpoint/weights.ts";
import type { Bits } from "./quantization/blocks.ts";
import type { QuantizedBase } from "./quantization/quantized-base.ts";
import { makeTemporaryFolder } from "./quantization/temporary-folder.ts";
import type { EngineThread } from "./thread.ts";

/** Keyed by bits, and the locations of the weights on disk and the identities of their files. */
const bases = new Map<string, Promise<QuantizedBase>>();
let folder: string | undefined;
let fileCount = 0;

/** `files` have passed `checkQuantization`. `seconds`: a time limit. */
export function openQuantized(
  thread: EngineThread,
  files: CheckpointFiles,
  bits: Bits,
  seconds: number | undefined,
): Promise<QuantizedBase> {
  const key = JSON.stringify([bits, locationsOf(files)]);
  const known = bases.get(key);
  if (known) return known;
  folder ??= makeTemporaryFolder();
  const path = join(folder, `${fileCount++}-int${bits}`);
  const opening = thread.call<QuantizedBase>(
    thread.newHandle(),
    { method: "quantize", files, bits, path },
    { seconds },
  );
  bases.set(key, opening);
  opening.catch(() => {
    bases.delete(key);
    rmSync(path, { force: true });
  });
  return opening;
}

function locationsOf(files: CheckpointFiles) {
  const config = readModelConfig(files);
  const locations = locateParameters(files, config, parameterLayout(config));
  return linearParameters(config).map(({ name }) => {
    const location = locations.get(name);
    const file = location?.file;
    const onDisk = !file || file instanceof Uint8Array ? [] : [file.path, fileIdentity(file.path)];
    return [...onDisk, location?.entry.begin];
  });
}
