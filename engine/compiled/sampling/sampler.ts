/**
 * @file The sampler on compiled graphs: one loop runs a continuous batch (continuous-batch.ts) while it has requests.
 *
 *   waiting --(admitted)--> prefill all tokens but the last --> decode one token, or one block, per step
 *                                                                --(stop, length)--> answered; the sequence keeps its KV cache
 *
 * Requests join between two steps. A request waits for an earlier request of its own sequence, and for a free slot. The loop ends when no
 * requests are left.
 */
import { MgrpoError } from "../../../core/errors.ts";
import type { CheckpointFiles, Sample, SampleRequest, Sampler } from "../../../core/ports.ts";
import { readAdapter } from "../../checkpoint/adapter.ts";
import { checkSampleRequest } from "../../model/input-checks.ts";
import { asEngineError } from "../engine-error.ts";
import { samplingThreads } from "../graphs/row-product.ts";
import { parameterTensors } from "../graphs/weights.ts";
import type { LaneOptions } from "../lanes.ts";
import { type MappedTensors, openWeights } from "../open-weights.ts";
import { endUse } from "../shared-sessions.ts";
import { ContinuousBatch } from "./continuous-batch.ts";
import type { PendingSample } from "./generation.ts";
import { DECODE_MODES, type DecodeMode, openDecoder } from "./open-decoder.ts";
import { MINIMUM_SLOTS } from "./slot-decoder.ts";

/** `mode` defaults to the provider's; only tests override it. */
export async function openCompiledSampler(
  files: CheckpointFiles,
  laneOptions: LaneOptions,
  mode: DecodeMode = DECODE_MODES[laneOptions.provider],
): Promise<Sampler> {
  const { config, external, feeds: base } = openWeights(files, laneOptions.quantized);
  const options = { ...laneOptions, threads: samplingThreads(config, laneOptions), multipliesCodes: true };
  const adapter = readAdapter(files, config);
  const shape = { config, lora: adapter?.lora ?? null };
  const feeds = { ...base, ...(adapter && parameterTensors(adapter.layout, adapter.weights)) };
  const slots = Math.max(MINIMUM_SLOTS, options.slots);
  const opening = openDecoder({ shape, external, feeds }, slots, options, mode);
  opening.catch(() => endUse(external));
  const { decoder, blockDecoder } = await opening;
  const batch = new ContinuousBatch(decoder, blockDecoder, slots, config.vocabulary);
  return new CompiledSampler(batch, config.vocabulary, options.contextTokens, external);
}

class CompiledSampler implements Sampler {
  readonly #batch: ContinuousBatch;
  readonly #vocabulary: number;
  readonly #contextTokens: number;
  readonly #external: MappedTensors;
  /** By sequence: how many sequences began before it. */
  readonly #arrivals = new Map<string, number>();
  #sequences = 0;
  #isClosed = false;
  #loop: Promise<void> | undefined;

  constructor(batch: ContinuousBatch, vocabulary: number, contextTokens: number, external: MappedTensors) {
    this.#batch = batch;
    this.#vocabulary = vocabulary;
    this.#contextTokens = contextTokens;
    this.#external = external;
  }

  async sample(request: SampleRequest, signal?: AbortSignal): Promise<Sample> {
    checkSampleRequest(request, this.#vocabulary, this.#contextTokens);
    if (this.#isClosed || signal?.aborted) throw canceled(request);
    const limit = Math.min(request.maxTokens, this.#contextTokens - request.tokens.length);
    if (limit <= 0) return { tokens: [], logProbs: [], stop: "length" };
    const arrival = this.#arrivals.get(request.sequence) ?? this.#sequences++;
    this.#arrivals.set(request.sequence, arrival);
    const { promise, resolve, reject } = withResolvers<Sample>();
    const sample: PendingSample = { request, arrival, limit, resolve, reject };
    const abort = () => this.#batch.drop(sample, canceled(request));
    signal?.addEventListener("abort", abort, { once: true });
    this.#batch.add(sample);
    this.#wake();
    return promise.finally(() => signal?.removeEventListener("abort", abort));
  }

  release(sequence: string): void {
    for (const sample of this.#batch.samples) {
      if (sample.request.sequence === sequence) this.#batch.drop(sample, canceled(sample.request));
    }
    this.#batch.release(sequence);
    this.#arrivals.delete(sequence);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#dropAll(({ request }) => canceled(request));
    await this.#loop;
    this.#batch.close();
    endUse(this.#external);
  }

  #wake(): void {
    this.#loop ??= this.#run()
      .catch((error: unknown) => this.#dropAll(() => asEngineError(error)))
      .finally(() => {
        this.#loop = undefined;
        if (this.#batch.hasWaiting && !this.#isClosed) this.#wake();
      });
  }

  async #run(): Promise<void> {
    while (!this.#batch.isEmpty && !this.#isClosed) await this.#batch.step();
  }

  #dropAll(error: (sample: PendingSample) => MgrpoError): void {
    for (const sample of this.#batch.samples) this.#batch.drop(sample, error(sample));
  }
}

const canceled = ({ sequence }: SampleRequest) => new MgrpoError("canceled", `sampling of '${sequence}' was canceled`);

/** Promise.withResolvers, which Node 20 lacks. */
function withResolvers<T>() {
  let resolve: (value: T) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}
