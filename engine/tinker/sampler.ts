/**
 * @file A Sampler on a server: one request per sample, at most `slots` of them at a time. Each request sends the whole prefix; the server's own
 * prefix cache makes that cheap. A version is sampled from a separate model that is never trained: SkyRL's JAX backend loads sampler
 * weights over those of the model that saved them, and its other backends sample a model's newest weights whatever the path, and cannot sample
 * the base model. So version 0 is sampled from a fresh adapter, which behaves exactly like the base model.
 */

import { setMaxListeners } from "node:events";
import pLimit from "p-limit";
import { linkSignals } from "../../core/any-signal.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, EngineOptions, Sample, SampleRequest, Sampler } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { checkSampleRequest } from "../model/input-checks.ts";
import { endsWithStop } from "../model/token-sampling.ts";
import type { SampledModel, SampleResult, SamplingParams } from "./client/messages.ts";
import { isModelLost, type TinkerServer } from "./server.ts";
import { readTinkerVersion, readVocabulary, type TinkerVersion } from "./version.ts";

export async function openTinkerSampler(
  server: TinkerServer,
  files: CheckpointFiles,
  { slots, contextTokens }: EngineOptions,
): Promise<Sampler> {
  const vocabulary = readVocabulary(files);
  const version = readTinkerVersion(files);
  const base = await server.resolve(version, contextTokens);
  const copy = new SampledCopy(
    () => openCopy(server, base, version),
    () => server.renewSession(),
  );
  await copy.ready();
  const closed = new AbortController();
  // Every sample in flight adds a listener.
  setMaxListeners(0, closed.signal);
  const limit = pLimit(slots);

  return {
    async sample(request, signal) {
      checkSampleRequest(request, vocabulary, contextTokens);
      checkTemperature(request);
      const { signal: stopSignal, unlink } = linkSignals(closed.signal, signal);
      try {
        stopSignal.throwIfAborted();
        const maxTokens = Math.min(request.maxTokens, contextTokens - request.tokens.length);
        if (maxTokens <= 0) return { tokens: [], logProbs: [], stop: "length" };
        const answer = limit(() => {
          stopSignal.throwIfAborted();
          const draw = (model: SampledModel) =>
            server.client.sample(model, request.tokens, paramsOf(request, maxTokens), stopSignal);
          return copy.use(draw, stopSignal);
        });
        return sampleOf(server, request, await unlessAborted(answer, stopSignal), { maxTokens, vocabulary });
      } catch (cause) {
        if (!stopSignal.aborted) throw cause;
        throw new MgrpoError("canceled", `sampling of '${request.sequence}' was canceled`, { cause });
      } finally {
        unlink();
      }
    },
    release() {},
    async close() {
      closed.abort();
      await copy.close();
    },
  };
}

interface Copy {
  readonly path: string;
  close(): Promise<void>;
}

/** The copy that requests are sampled from. Where the server has lost its model, as in a restart, another copy takes its place. */
class SampledCopy {
  readonly #open: () => Promise<Copy>;
  readonly #onLost: () => void;
  /** All copies so far, lost ones included: a request that is being retried may still name one. `close` closes them together. */
  readonly #opened: Promise<Copy>[] = [];
  #current: Promise<Copy>;

  constructor(open: () => Promise<Copy>, onLost: () => void) {
    this.#open = open;
    this.#onLost = onLost;
    this.#current = this.#openAnother();
  }

  async ready(): Promise<void> {
    await this.#current;
  }

  async use<T>(work: (model: SampledModel) => Promise<T>, signal: AbortSignal): Promise<T> {
    const current = this.#current;
    const { path } = await current;
    try {
      return await work({ model_path: path });
    } catch (error) {
      if (signal.aborted || !isModelLost(error)) throw error;
      const { path: other } = await this.#replace(current);
      return work({ model_path: other });
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map((opened) => opened.then((copy) => copy.close()).catch(() => {})));
  }

  /** The first request that notices the loss opens the other copy. If that fails, the next request tries again. */
  #replace(lost: Promise<Copy>): Promise<Copy> {
    if (this.#current !== lost) return this.#current;
    this.#onLost();
    const other = this.#openAnother();
    this.#current = other;
    other.catch(() => {
      this.#current = lost;
    });
    return other;
  }

  #openAnother(): Promise<Copy> {
    const opened = this.#open();
    this.#opened.push(opened);
    return opened;
  }
}

/** Loads the version into a separate model and saves that for sampling. */
async function openCopy(server: TinkerServer, base: string, version: TinkerVersion): Promise<Copy> {
  const model = await server.open(base, version);
  const path = await model.saveForSampler().catch(async (error: unknown) => {
    await server.unload(model);
    throw error;
  });
  return {
    path,
    async close() {
      await server.unload(model);
      // A failed deletion only wastes space on the server.
      await server.client.deleteWeights(path).catch(() => {});
    },
  };
}

/** The promise's value, or the signal's reason as soon as it aborts: a request may still wait for its slot. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

function paramsOf({ stop, sampling, stream: name }: SampleRequest, maxTokens: number): SamplingParams {
  const ends = stop.flatMap((tokens) => (tokens.length === 1 ? tokens : []));
  return {
    max_tokens: maxTokens,
    seed: stream(...name).integer(2 ** 31),
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK === 0 ? -1 : sampling.topK,
    ...(ends.length > 0 && { stop: ends }),
  };
}

interface SampleLimits {
  readonly maxTokens: number;
  /** The `vocab_size` of the agent's model folder. */
  readonly vocabulary: number;
}

/** The server takes only single tokens as `stop`, so the sample is cut here after a longer stop sequence. */
function sampleOf(
  { baseUrl }: TinkerServer,
  { sequence, stop }: SampleRequest,
  { sequences: [first] }: SampleResult,
  limits: SampleLimits,
): Sample {
  const tokens = first?.tokens ?? [];
  const logProbs = first?.logprobs ?? [];
  const end = endOf(tokens, stop);
  const fault = faultOf(tokens, logProbs, limits) ?? (end === -1 ? foreignStop(tokens, first) : undefined);
  if (fault) throw new MgrpoError("endpoint-refused", `${baseUrl}: sample of '${sequence}': the server ${fault}`);
  const kept = end === -1 ? tokens.length : end + 1;
  return {
    tokens: tokens.slice(0, kept),
    // Rounding on the server can give probabilities slightly above 1.
    logProbs: logProbs.slice(0, kept).map((value) => Math.min(0, value)),
    stop: end === -1 ? "length" : "stop",
  };
}

/** The index of the token that completes the first stop sequence; -1: none. */
function endOf(tokens: readonly number[], stops: SampleRequest["stop"]): number {
  // One array that grows: a copy of every prefix would take time quadratic in the number of tokens.
  const prefix: number[] = [];
  return tokens.findIndex((token) => {
    prefix.push(token);
    return endsWithStop(prefix, stops);
  });
}

function faultOf(
  tokens: readonly number[],
  logProbs: readonly number[],
  { maxTokens, vocabulary }: SampleLimits,
): string | undefined {
  const remedy = "update the server, or report this to its authors";
  if (tokens.length !== logProbs.length)
    return `returned ${logProbs.length} log-probs for ${tokens.length} tokens: ${remedy}`;
  if (tokens.length > maxTokens)
    return `returned ${tokens.length} tokens, but the request allows ${maxTokens}: ${remedy}`;
  if (tokens.length === 0) return `returned no token: ${remedy}`;
  const unknown = tokens.find((token) => token >= vocabulary);
  if (unknown === undefined) return undefined;
  return `returned token ${unknown}, outside the model folder's vocabulary of ${vocabulary}: set the agent's model to a folder with the config.json and tokenizer of the server's model`;
}

/** A server may also stop at an end token of its own copy of the model. That sample is not cut off, and must not count as truncated. */
function foreignStop(
  tokens: readonly number[],
  sample: SampleResult["sequences"][number] | undefined,
): string | undefined {
  if (sample?.stop_reason !== "stop") return undefined;
  return `ended it at token ${tokens.at(-1)}, which is not one of the stop sequences: give the agent's model folder the generation_config.json of the server's model`;
}

function checkTemperature({ sampling: { temperature } }: SampleRequest): void {
  if (temperature === 0 || temperature === 1) return;
  // Only an app's request can have another temperature: a run's own is checked with its config.
  throw new MgrpoError(
    "request-refused",
    `temperature is ${temperature}, but a Tinker server reports log-probs at 1: set it to 1, or to 0 for greedy evaluation`,
  );
}
