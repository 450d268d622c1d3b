/** @file Opens a provider's decoder. The mode determines where its KV cache lives and how many tokens one run decodes. */
import type { ExecutionProvider } from "../../../core/contracts/engine.ts";
import type { Feeds } from "../graph-session.ts";
import { traceBlock } from "../graphs/block.ts";
import { traceExtend } from "../graphs/extend.ts";
import { traceExtendOnDevice, updatedCacheName } from "../graphs/extend-on-device.ts";
import type { LaneOptions } from "../lanes.ts";
import type { MappedTensors } from "../open-weights.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { sharedSession } from "../shared-sessions.ts";
import { uploadToDevice } from "../upload.ts";
import { BlockDecoder } from "./block-decoder.ts";
import { DeviceDecoder } from "./device-decoder.ts";
import { HostDecoder } from "./host-decoder.ts";
import type { SlotDecoder } from "./slot-decoder.ts";

/** Per run, one token with the cache on the host (`step`) or on the device (`device`), or a block of tokens with the cache on the host (`block`). */
export type DecodeMode = "step" | "device" | "block";

export const DECODE_MODES: Readonly<Record<ExecutionProvider, DecodeMode>> = {
  cpu: "step",
  webgpu: "device",
  cuda: "block",
};

export interface DecoderWeights {
  readonly shape: PolicyShape;
  /** Memory-mapped by the session. */
  readonly external: MappedTensors;
  /** Fed to every run. */
  readonly feeds: Feeds;
}

export interface OpenedDecoder {
  readonly decoder: SlotDecoder;
  /** Uses the cache of `decoder`. */
  readonly blockDecoder?: BlockDecoder;
}

export async function openDecoder(
  weights: DecoderWeights,
  slots: number,
  options: LaneOptions,
  mode: DecodeMode,
): Promise<OpenedDecoder> {
  const { shape, external, feeds } = weights;
  const { contextTokens } = options;
  if (mode === "device") return { decoder: await openDeviceDecoder(weights, slots, options) };
  const session = await sharedSession("extend", shape, options, traceExtend, external);
  const decoder = new HostDecoder(session, shape.config, feeds, slots, contextTokens, options.quantized !== undefined);
  if (mode === "step") return { decoder };
  const blockSession = await sharedSession("block", shape, options, traceBlock, external);
  return { decoder, blockDecoder: new BlockDecoder(decoder.cache, blockSession, shape.config, feeds, contextTokens) };
}

async function openDeviceDecoder(
  { shape, external, feeds }: DecoderWeights,
  slots: number,
  options: LaneOptions,
): Promise<DeviceDecoder> {
  // Tests run this mode on the CPU.
  const isWebGpu = options.provider === "webgpu";
  const staysOnDevice = (output: string) => isWebGpu && output.startsWith(updatedCacheName(""));
  const trace = traceExtendOnDevice;
  const session = await sharedSession("extend-on-device", shape, options, trace, external, staysOnDevice);
  const weights = isWebGpu ? await uploadToDevice(feeds, options) : feeds;
  return new DeviceDecoder(session, shape.config, weights, slots, options.contextTokens);
}
