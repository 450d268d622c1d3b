/**
 * @file The forms in which trained weights are exported: a model as a Hugging Face folder; an adapter as a PEFT folder, which names its base
 * model without copying it, or merged into the base; in float32, rounded to bfloat16, or as the run stores them.
 */
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_FILE,
  readAdapter,
  readAdapterConfig,
  writeAdapterConfig,
} from "../../engine/checkpoint/adapter.ts";
import { BASE_FILE, isBaseFile, recordedBase, writeBasePointer } from "../../engine/checkpoint/base-pointer.ts";
import { readModelConfig } from "../../engine/checkpoint/config.ts";
import { withDtype, withStoredDtype } from "../../engine/checkpoint/dtype.ts";
import { mergeAdapter } from "../../engine/checkpoint/merge.ts";
import { planModelFiles, serializeFiles } from "../../engine/checkpoint/shards.ts";
import { parseCheckpoint, writeModel } from "../../engine/checkpoint/weights.ts";

export interface ExportForm {
  /** Merge adapters into their base models. */
  readonly merged: boolean;
  /** Undefined: float32 for an adapter, merged or not; otherwise as the run stores them. */
  readonly dtype: "fp32" | "bf16" | undefined;
}

const DTYPES = { fp32: { file: "F32", torch: "float32" }, bf16: { file: "BF16", torch: "bfloat16" } } as const;
const WEIGHTS = /\.safetensors(\.index\.json)?$/;

const encode = (text: string) => new TextEncoder().encode(text);

/** The files of a manifest, in the given form. */
export function exportedFiles(
  files: CheckpointFiles,
  manifest: Manifest,
  { merged, dtype }: ExportForm,
): CheckpointFiles {
  const adapter = readAdapterConfig(files);
  if (adapter && !merged) return adapterFiles(files, manifest, recordedBase(adapter), dtype);
  // A model behind an API or on a server has no weights here to convert.
  const hasWeights = [...files.keys()].some((name) => WEIGHTS.test(name));
  if (!adapter && !hasWeights) return files;
  if (!adapter && dtype === undefined) return withStoredDtype(files);
  const checkpoint = parseCheckpoint(files);
  const own = readAdapter(files, checkpoint.config);
  if (own) mergeAdapter(checkpoint, own);
  const { file, torch } = DTYPES[dtype ?? "fp32"];
  const exported = new Map([
    ...[...files].filter(([name]) => !WEIGHTS.test(name) && name !== ADAPTER_CONFIG_FILE),
    ...serializeFiles(planModelFiles(checkpoint.layout, checkpoint.weights, file)),
  ]);
  return withDtype(exported, torch);
}

function adapterFiles(
  files: CheckpointFiles,
  manifest: Manifest,
  path: string,
  dtype: ExportForm["dtype"],
): CheckpointFiles {
  const config = readModelConfig(files);
  const adapter = readAdapter(files, config);
  if (!adapter) throw new Error(`${ADAPTER_CONFIG_FILE} is present, the adapter is not`);
  return new Map([
    ...[...files].filter(([name]) => !isBaseFile(name)),
    [ADAPTER_CONFIG_FILE, encode(writeAdapterConfig(adapter.lora, path))],
    [ADAPTER_FILE, writeModel(adapter.layout, adapter.weights, DTYPES[dtype ?? "fp32"].file)],
    [BASE_FILE, writeBasePointer(path, manifest.files)],
  ]);
}
