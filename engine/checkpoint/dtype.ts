/**
 * @file The type that `config.json` names for the weights. transformers loads them as that type, whatever type they are stored as; before
 * version 5 only if asked to (`torch_dtype="auto"`).
 */
import type { CheckpointFiles } from "../../core/ports.ts";
import { configBytes } from "./config.ts";
import { locateTensors } from "./tensors.ts";

export type TorchDtype = "float32" | "bfloat16";

const CONFIG = "config.json";

/** The checkpoint with a config that names this type: as `dtype` since transformers 4.56, as `torch_dtype` before. */
export function withDtype(files: CheckpointFiles, dtype: TorchDtype): CheckpointFiles {
  const config = configOf(files);
  const key = "dtype" in config ? "dtype" : "torch_dtype";
  if (config[key] === dtype) return files;
  const written = new TextEncoder().encode(`${JSON.stringify({ ...config, [key]: dtype }, null, 2)}\n`);
  return new Map([...files, [CONFIG, written]]);
}

/**
 * If all weights are stored as float32, the config names float32. A trained model's weights are stored so, whatever its base's type: if the
 * config still named the base's type, the weights would be rounded when loaded. A config that names no type is left alone.
 */
export function withStoredDtype(files: CheckpointFiles): CheckpointFiles {
  const { dtype, torch_dtype: named = dtype } = files.has(CONFIG) ? configOf(files) : {};
  if (named === undefined) return files;
  const isFloat32 = [...locateTensors(files).values()].every(({ entry }) => entry.type === "F32");
  return isFloat32 ? withDtype(files, "float32") : files;
}

const configOf = (files: CheckpointFiles): Record<string, unknown> =>
  JSON.parse(new TextDecoder().decode(configBytes(files))) as Record<string, unknown>;
