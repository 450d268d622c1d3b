/**
 * @file The sampler on compiled graphs: continuous batching. One loop serves all requests:
 *
 *   waiting --(a slot is free)--> prefill all new tokens but the last --> decode, one token of every active slot per call
 *                                                                          --(stop, length)--> answered; the cache stays
 *
 * waits for: a request (the loop ends when there is none). New requests join between two calls; nobody waits for another to end.
 */

import type { ExecutionProvider } from "../../../core/contracts/engine.ts";
import { isMgrpoError, MgrpoError } from "../../../core/errors.ts";
import type { CheckpointFiles, Sample, SampleRequest, Sampler } from "../../../core/ports.ts";
import { stream } from "../../../core/random.ts";
import { readAdapter } from "../checkpoint/adapter.ts";
import { type Drawn, draw, endsWith } from "../draw.ts";
import { checkPrompt } from "../sequences.ts";
import { BLOCK, BlockDecoder, type Spoken } from "./block-decoder.ts";
import { Decoder, FEWEST_SLOTS } from "./decoder.ts";
import { DeviceDecoder } from "./device-decoder.ts";
import { traceBlock } from "./graphs/block.ts";
import { traceExtend } from "./graphs/extend.ts";
import { nextName, traceExtendOnDevice } from "./graphs/extend-on-device.ts";
import { parameterTensors } from "./graphs/weights.ts";
import type { LaneOptions } from "./lanes.ts";
import type { ExternalTensors } from "./onnx/serialize.ts";
import type { PolicyShape } from "./policy-shape.ts";
import { type Filling, prefill } from "./prefill.ts";
import { forget, type Placed, Residents } from "./residents.ts";
import type { Feeds } from "./session.ts";
import { sharedSession } from "./sessions.ts";
import { onDevice } from "./upload.ts";
import { openWeights } from "./weights.ts";

interface Turn {
  readonly request: SampleRequest;
  /** How many conversations had begun before its own. */
  readonly rank: number;
  readonly uniform: () => number;
  readonly tokens: number[];
  readonly logProbs: number[];
  readonly limit: number;
  readonly answer: (sample: Sample) => void;
  readonly fail: (error: unknown) => void;
  resident: Placed | undefined;
  cancelled: boolean;
}

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
  const slots = Math.max(FEWEST_SLOTS, options.slots);
  const { decoder, blocks } = await openDecoder({ shape, external, feeds, slots }, options, decoding);
  const residents = new Residents(decoder.cache, slots);
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
    await prefill(fillings, residents.placed, decoder);
  };

  const decode = async () => {
    const turns = active.filter((turn) => !turn.cancelled);
    if (turns.length === 0) return;
    const count = residents.compact();
    if (blocks && turns.every(drawsPlainly)) return decodeBlock(blocks, turns, count);
    for (const { resident, request, tokens } of turns) {
      if (resident)
        decoder.place(
          resident.slot,
          lastOf(request, tokens),
          resident.tokens.length,
          request.sampling.temperature || 1,
        );
    }
    const probabilities = await decoder.decode(count);
    for (const turn of turns) {
      const { resident, request, uniform } = turn;
      if (!resident) continue;
      resident.tokens.push(lastOf(request, turn.tokens));
      if (turn.cancelled) continue;
      const from = resident.slot * config.vocabulary;
      take(turn, draw(probabilities, from, config.vocabulary, request.sampling, uniform));
    }
  };

  const decodeBlock = async (decoder: BlockDecoder, turns: readonly Turn[], count: number) => {
    const speakers = turns.map(({ resident, request, tokens, limit, uniform }) => ({
      ...{ slot: resident?.slot ?? 0, token: lastOf(request, tokens), position: resident?.tokens.length ?? 0 },
      temperature: request.sampling.temperature || 1,
      draws: Array.from({ length: Math.min(BLOCK, limit - tokens.length) }, () =>
        request.sampling.temperature === 0 ? -1 : uniform(),
      ),
    }));
    const spoken = await decoder.speak(speakers, count);
    turns.forEach((turn, i) => {
      const { tokens, logProbs, keep } = spoken[i] as Spoken;
      let kept = 0;
      while (kept < tokens.length && turn.resident?.active && !turn.cancelled) {
        turn.resident.tokens.push(lastOf(turn.request, turn.tokens));
        take(turn, { token: tokens[kept] as number, logProb: logProbs[kept] as number });
        kept++;
      }
      keep(kept);
    });
  };

  const take = (turn: Turn, drawn: Drawn) => {
    turn.tokens.push(drawn.token);
    turn.logProbs.push(drawn.logProb);
    if (endsWith(turn.tokens, turn.request.stop)) finish(turn, "stop");
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
      checkPrompt(request, config.vocabulary, options.contextTokens);
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
): Promise<{ decoder: Decoder | DeviceDecoder; blocks?: BlockDecoder }> {
  const { contextTokens } = options;
  const open = (graph: string, trace: typeof traceExtend, stays?: (output: string) => boolean) =>
    sharedSession(graph, shape, options, trace, external, stays);
  if (decoding === "device") {
    const webgpu = options.provider === "webgpu";
    const stays = (output: string) => webgpu && output.startsWith(nextName(""));
    const session = await open("extend-on-device", traceExtendOnDevice, stays);
    const weights = webgpu ? await onDevice(feeds, options) : feeds;
    return { decoder: new DeviceDecoder(session, shape.config, weights, slots, contextTokens) };
  }
  const decoder = new Decoder(await open("extend", traceExtend), shape.config, feeds, slots, contextTokens);
  if (decoding === "step") return { decoder };
  const session = await open("block", traceBlock);
  return { decoder, blocks: new BlockDecoder(decoder, session, shape.config, feeds, contextTokens) };
}

/** Of the whole distribution, or the likeliest. */
const drawsPlainly = ({ request: { sampling } }: Turn) =>
  sampling.temperature === 0 || (sampling.topK === 0 && sampling.topP === 1);

/** The token that is not in the cache yet. */
const lastOf = (request: SampleRequest, tokens: readonly number[]) => tokens.at(-1) ?? request.tokens.at(-1) ?? 0;

const cancelled = ({ sequence }: SampleRequest) =>
  new MgrpoError("cancelled", `sampling of '${sequence}' was cancelled by its caller`);

function asEngineError(error: unknown): MgrpoError {
  if (isMgrpoError(error)) return error;
  return new MgrpoError("engine-unsupported", `the engine failed: ${String(error)}`, { cause: error });
}
