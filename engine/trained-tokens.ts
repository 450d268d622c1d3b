/** @file The trainer's log-probs of a step's trajectories as a file: a tensor per trajectory, and one of its clipped tokens' indices, if any. */
import type { TrainedTokens } from "../core/contracts/telemetry.ts";
import { type NamedTensor, readHeader, readTensor, writeSafetensors } from "./checkpoint/safetensors.ts";

const clippedName = (name: string) => `${name} clipped`;

export function trainedTokensFile(trajectories: ReadonlyMap<string, TrainedTokens>): Uint8Array {
  const tensors = new Map<string, NamedTensor>();
  for (const [name, { logProbs_A, clipped }] of trajectories) {
    tensors.set(name, { shape: [logProbs_A.length], values: logProbs_A });
    if (clipped.length > 0)
      tensors.set(clippedName(name), { shape: [clipped.length], values: Float32Array.from(clipped) });
  }
  return writeSafetensors(tensors);
}

/** One trajectory of the file; undefined if the file lacks it. `what` names the file in errors. */
export function readTrainedTokens(file: Uint8Array, name: string, what: string): TrainedTokens | undefined {
  const { tensors } = readHeader(file, what);
  const read = (tensor: string) => {
    const entry = tensors.get(tensor);
    if (!entry) return undefined;
    const values = new Float32Array(entry.length);
    readTensor(file, entry, values);
    return values;
  };
  const logProbs_A = read(name);
  return logProbs_A && { logProbs_A, clipped: [...(read(clippedName(name)) ?? [])] };
}
