/**
 * @file The sampler on compiled graphs: continuous batching. One loop serves all requests:
 *
 *   waiting --(a slot is free)--> prefill all new tokens but the last --> decode, one token of every active turn per call
 *                                                                          --(stop, length)--> answered; the cache stays
 *
 * Turns whose caches are in one state are one row of a decode (turn.ts). What followed from a state is kept (recall.ts): who comes to it later goes
 * on without a decode, as long as some slot still has that cache.
 *
 * waits for: a request (the loop ends when there is none). New requests join between two calls; nobody waits for another to end.
 */

import type { ExecutionProvider } from "../../../core/contracts/engine.ts";
import { isMgrpoError, MgrpoError } from "../../../core/errors.ts";
import type { CheckpointFiles, Sample, SampleRequest, Sampler } from "../../../core/ports.ts";
import { stream } from "../../../core/random.ts";
import { readAdapter } from "../../checkpoint/adapter.ts";
import { checkSampleRequest } from "../../model/input-checks.ts";
import { endsWithStop, type SampledToken, sampleToken } from "../../model/token-sampling.ts";
import type { Feeds } from "../graph-session.ts";
import { traceBlock } from "../graphs/block.ts";
import { traceExtend } from "../graphs/extend.ts";
import { traceExtendOnDevice, updatedCacheName } from "../graphs/extend-on-device.ts";
import { parameterTensors } from "../graphs/weights.ts";
import type { LaneOptions } from "../lanes.ts";
import type { ExternalTensors } from "../onnx/serialize.ts";
import { openWeights } from "../open-weights.ts";
import type { PolicyShape } from "../policy-shape.ts";
import { sharedSession } from "../shared-sessions.ts";
import { uploadToDevice } from "../upload.ts";
import { BLOCK, BlockDecoder, type Spoken } from "./block-decoder.ts";
import { DeviceDecoder } from "./device-decoder.ts";
import { alike, drawsPlainly, lastOf, type Next, nextOf, type Speaking, type Turn } from "./generation.ts";
import { HostDecoder, MINIMUM_SLOTS } from "./host-decoder.ts";
import { forget, hold, KvCacheSlots, type SlotEntry, stateOf, withState } from "./kv-cache-slots.ts";
import { type Filling, prefill } from "./prefill.ts";
import { PrefixCache } from "./prefix-cache.ts";
import { PrefixStates } from "./prefix-states.ts";

/** `decoding`: that of the provider, but in tests. */
export async function openCompiledSampler(
  files: CheckpointFiles,
  options: LaneOptions,
  decoding: Decoding = DECODING[options.provider],
): Promise<Sampler> {
  const { config, external, feeds: base } = openWeights(files);
  const adapter = readAdapter(files, config);
  const shape = { config, lora: adapter?.lora ?? null };
  const feeds = { ...base, ...(adapter && parameterTensors(adapter.layout, adapter.weights)) };
  const slots = Math.max(MINIMUM_SLOTS, options.slots);
  const { decoder, blocks } = await openDecoder({ shape, external, feeds, slots }, options, decoding);
  const residents = new KvCacheSlots(decoder.cache, slots);
  const states = new PrefixStates();
  const recall = new PrefixCache(config.vocabulary);
  const ranks = new Map<string, number>();
  let begun = 0;
  let waiting: Turn[] = [];
  let active: Turn[] = [];
  let closed = false;
  let running: Promise<void> | undefined;

  const admit = async () => {
    const fillings: Filling[] = [];
    // A conversation that goes on comes before one that begins: its cache is still there, and who waits for it waits less.
    for (const turn of waiting.toSorted((a, b) => a.rank - b.rank)) {
      if (turn.cancelled || residents.isActive(turn.request.sequence)) continue;
      const resident = residents.activate(turn.request.sequence);
      if (!resident) break;
      waiting = waiting.filter((other) => other !== turn);
      turn.resident = resident;
      active.push(turn);
      const tokens = turn.request.tokens.slice(0, -1);
      if (!resident.tokens.every((token, i) => token === tokens[i])) forget(resident);
      fillings.push({ resident, tokens });
    }
    await prefill(fillings, residents.placed, states, decoder);
  };

  const decode = async () => {
    const speaking = active.filter((turn): turn is Speaking => turn.resident !== undefined && !turn.cancelled);
    if (speaking.length === 0) return;
    if (blocks && speaking.every(drawsPlainly)) return decodeBlock(blocks, speaking);
    const groups = alike(speaking.flatMap(goOn));
    if (groups.length === 0) return;
    const leaders = groups.map(({ turns: [leader] }) => leader);
    const count = residents.compact(leaders.map(({ resident }) => resident));
    for (const { resident, request, tokens } of leaders) {
      const { slot, tokens: held } = resident;
      decoder.place(slot, lastOf(request, tokens), held.length, request.sampling.temperature || 1);
    }
    const probabilities = await decoder.decode(count);
    for (const { next, turns } of groups) {
      const [{ resident: source }] = turns;
      const from = source.slot * config.vocabulary;
      const row = probabilities.subarray(from, from + config.vocabulary);
      recall.put(next.key, row);
      for (const turn of turns) speak(turn, source, next.state, row);
    }
  };

  /** As far as others have been before: their caches are there, and what followed. Then, unless it has ended, it needs to be decoded. */
  const goOn = (turn: Speaking): { turn: Speaking; next: Next }[] => {
    while (turn.resident.active) {
      const next = nextOf(turn, states);
      const row = recall.get(next.key);
      const source = row && withState(residents.placed, next.state, turn.resident.tokens.length + 1);
      if (!row || !source) return [{ turn, next }];
      speak(turn, source, next.state, row);
    }
    return [];
  };

  /** Draws a token from what followed `source`'s cache with this turn's last token in it. */
  const speak = (turn: Speaking, source: SlotEntry, state: number, probabilities: Float32Array) => {
    const { resident, request, tokens, uniform } = turn;
    const held = resident.tokens.length;
    if (source !== resident) decoder.cache.copy(source.slot, resident.slot, held, held + 1);
    hold(resident, [lastOf(request, tokens)], state);
    if (!turn.cancelled) take(turn, sampleToken(probabilities, 0, config.vocabulary, request.sampling, uniform));
  };

  const decodeBlock = async (decoder: BlockDecoder, turns: readonly Speaking[]) => {
    const count = residents.compact(turns.map(({ resident }) => resident));
    const speakers = turns.map(({ resident, request, tokens, limit, uniform }) => ({
      ...{ slot: resident.slot, token: lastOf(request, tokens), position: resident.tokens.length },
      temperature: request.sampling.temperature || 1,
      draws: Array.from({ length: Math.min(BLOCK, limit - tokens.length) }, () =>
        request.sampling.temperature === 0 ? -1 : uniform(),
      ),
    }));
    const spoken = await decoder.speak(speakers, count);
    turns.forEach((turn, i) => {
      const { tokens, logProbs, keep } = spoken[i] as Spoken;
      let kept = 0;
      while (kept < tokens.length && turn.resident.active && !turn.cancelled) {
        const last = [lastOf(turn.request, turn.tokens)];
        hold(turn.resident, last, states.after(stateOf(turn.resident), "spoken", last));
        take(turn, { token: tokens[kept] as number, logProb: logProbs[kept] as number });
        kept++;
      }
      keep(kept);
    });
  };

  const take = (turn: Turn, drawn: SampledToken) => {
    turn.tokens.push(drawn.token);
    turn.logProbs.push(drawn.logProb);
    if (endsWithStop(turn.tokens, turn.request.stop)) finish(turn, "stop");
    else if (turn.tokens.length >= turn.limit) finish(turn, "length");
  };

  const finish = (turn: Turn, stop: Sample["stop"]) => {
    if (turn.resident) turn.resident.active = false;
    turn.answer({ tokens: turn.tokens, logProbs: turn.logProbs, stop });
    active = active.filter((other) => other !== turn);
  };

  const drop = (turn: Turn, error: MgrpoError) => {
    turn.cancelled = true;
    if (turn.resident) turn.resident.active = false;
    waiting = waiting.filter((other) => other !== turn);
    active = active.filter((other) => other !== turn);
    turn.fail(error);
  };

  const loop = async () => {
    while (waiting.length + active.length > 0 && !closed) {
      await admit();
      await decode();
    }
  };

  const wake = () => {
    running ??= loop()
      .catch((error: unknown) => {
        for (const turn of [...waiting, ...active]) drop(turn, asEngineError(error));
      })
      .finally(() => {
        running = undefined;
        if (waiting.length > 0 && !closed) wake();
      });
  };

  return {
    async sample(request, signal) {
      checkSampleRequest(request, config.vocabulary, options.contextTokens);
      if (signal?.aborted) throw cancelled(request);
      const limit = Math.min(request.maxTokens, options.contextTokens - request.tokens.length);
      if (limit <= 0) return { tokens: [], logProbs: [], stop: "length" };
      const rank = ranks.get(request.sequence) ?? begun++;
      ranks.set(request.sequence, rank);
      return new Promise<Sample>((answer, fail) => {
        const abort = () => drop(turn, cancelled(request));
        const turn: Turn = {
          request,
          rank,
          uniform: stream(...request.stream).uniform,
          tokens: [],
          logProbs: [],
          limit,
          answer: (sample) => {
            signal?.removeEventListener("abort", abort);
            answer(sample);
          },
          fail: (error) => {
            signal?.removeEventListener("abort", abort);
            fail(error);
          },
          resident: undefined,
          cancelled: false,
        };
        signal?.addEventListener("abort", abort, { once: true });
        waiting.push(turn);
        wake();
      });
    },
    release(sequence) {
      const turn = [...waiting, ...active].find((other) => other.request.sequence === sequence);
      if (turn) drop(turn, cancelled(turn.request));
      residents.release(sequence);
      ranks.delete(sequence);
    },
    async close() {
      closed = true;
      for (const turn of [...waiting, ...active]) drop(turn, cancelled(turn.request));
      await running;
      decoder.close();
    },
  };
}

interface DecoderParts {
  readonly shape: PolicyShape;
  readonly external: ExternalTensors;
  readonly feeds: Feeds;
  readonly slots: number;
}

/** Token by token with the cache here or on the device, or several in one run. */
export type Decoding = "step" | "device" | "block";
const DECODING: Readonly<Record<ExecutionProvider, Decoding>> = { cpu: "step", webgpu: "device", cuda: "block" };

async function openDecoder(
  { shape, external, feeds, slots }: DecoderParts,
  options: LaneOptions,
  decoding: Decoding,
): Promise<{ decoder: HostDecoder | DeviceDecoder; blocks?: BlockDecoder }> {
  const { contextTokens } = options;
  const open = (graph: string, trace: typeof traceExtend, stays?: (output: string) => boolean) =>
    sharedSession(graph, shape, options, trace, external, stays);
  if (decoding === "device") {
    const webgpu = options.provider === "webgpu";
    const stays = (output: string) => webgpu && output.startsWith(updatedCacheName(""));
    const session = await open("extend-on-device", traceExtendOnDevice, stays);
    const weights = webgpu ? await uploadToDevice(feeds, options) : feeds;
    return { decoder: new DeviceDecoder(session, shape.config, weights, slots, contextTokens) };
  }
  const decoder = new HostDecoder(await open("extend", traceExtend), shape.config, feeds, slots, contextTokens);
  if (decoding === "step") return { decoder };
  const session = await open("block", traceBlock);
  return { decoder, blocks: new BlockDecoder(decoder, session, shape.config, feeds, contextTokens) };
}

const cancelled = ({ sequence }: SampleRequest) =>
  new MgrpoError("cancelled", `sampling of '${sequence}' was cancelled by its caller`);

function asEngineError(error: unknown): MgrpoError {
  if (isMgrpoError(error)) return error;
  return new MgrpoError("engine-unsupported", `the engine failed: ${String(error)}`, { cause: error });
}
