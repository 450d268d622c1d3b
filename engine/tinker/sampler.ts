/**
 * @file A Sampler on a server: one request per sample, at most `slots` of them at a time. Each request sends the whole prefix; the server's own
 * prefix cache makes that cheap. A version is sampled from a separate model that is never trained: SkyRL's JAX backend loads sampler
 * weights over those of the model that saved them, and its other backends sample a model's newest weights whatever the path, and cannot sample
 * the base model. So version 0 is sampled from a fresh adapter, which is the base model.
 */
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, EngineOptions, Sample, SampleRequest, Sampler } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { checkSampleRequest } from "../model/input-checks.ts";
import { endsWithStop } from "../model/token-sampling.ts";
import type { SampledModel, SampleResult, SamplingParams } from "./client/messages.ts";
import type { TinkerServer } from "./server.ts";
import { readTinkerVersion, readVocabulary, type TinkerVersion } from "./version.ts";

export async function openTinkerSampler(
  server: TinkerServer,
  files: CheckpointFiles,
  { slots, contextTokens }: EngineOptions,
): Promise<Sampler> {
  const vocabulary = readVocabulary(files);
  const version = readTinkerVersion(files);
  const base = await server.resolve(version, contextTokens);
  const sampledModel = await openSampledModel(server, base, version);
  const model: SampledModel = { model_path: sampledModel.path };
  const closed = new AbortController();
  const withSlot = limitConcurrency(slots);

  return {
    async sample(request, signal) {
      checkSampleRequest(request, vocabulary, contextTokens);
      checkTemperature(request);
      const maxTokens = Math.min(request.maxTokens, contextTokens - request.tokens.length);
      if (maxTokens <= 0) return { tokens: [], logProbs: [], stop: "length" };
      const stopSignal = AbortSignal.any([closed.signal, ...(signal ? [signal] : [])]);
      try {
        const result = await withSlot(() => {
          stopSignal.throwIfAborted();
          return server.client.sample(model, request.tokens, paramsOf(request, maxTokens), stopSignal);
        });
        return sampleOf(request, result, maxTokens);
      } catch (cause) {
        if (!stopSignal.aborted) throw cause;
        throw new MgrpoError("canceled", `sampling of '${request.sequence}' was canceled by its caller`, { cause });
      }
    },
    release() {},
    async close() {
      closed.abort();
      await sampledModel.close();
    },
  };
}

/** Loads the version into a separate model and saves that for sampling. */
async function openSampledModel(server: TinkerServer, base: string, version: TinkerVersion) {
  const model = await server.open(base, version);
  const path = await model.saveForSampler();
  return {
    path,
    async close() {
      await server.unload(model);
      // A failed deletion only wastes space on the server.
      await server.client.deleteWeights(path).catch(() => {});
    },
  };
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

/** Servers stop at single tokens only: longer stop sequences are cut here. */
function sampleOf({ sequence, stop }: SampleRequest, { sequences }: SampleResult, maxTokens: number): Sample {
  const [first] = sequences;
  const tokens = first?.tokens ?? [];
  const logProbs = first?.logprobs ?? [];
  const length = 1 + tokens.findIndex((_, i) => endsWithStop(tokens.slice(0, i + 1), stop));
  const fault = faultOf(tokens, logProbs, maxTokens);
  if (fault) throw new MgrpoError("endpoint-refused", `asample of '${sequence}': the Tinker server ${fault}`);
  const kept = length === 0 ? tokens.length : length;
  return {
    tokens: tokens.slice(0, kept),
    // Rounding on the server can give probabilities slightly above 1.
    logProbs: logProbs.slice(0, kept).map((value) => Math.min(0, value)),
    stop: length === 0 ? "length" : "stop",
  };
}

function faultOf(tokens: readonly number[], logProbs: readonly number[], maxTokens: number): string | undefined {
  if (tokens.length !== logProbs.length) return `returned ${logProbs.length} log-probs for ${tokens.length} tokens`;
  if (tokens.length > maxTokens) return `returned ${tokens.length} tokens, but the request allows ${maxTokens}`;
  if (tokens.length === 0) return "returned no token";
  return undefined;
}

function checkTemperature({ sampling: { temperature } }: SampleRequest): void {
  if (temperature === 0 || temperature === 1) return;
  throw new MgrpoError(
    "config-invalid",
    `temperature is ${temperature}, but a Tinker server reports log-probs at 1: set it to 1, or to 0 for greedy evaluation`,
  );
}

/** Runs at most `slots` at a time, first come, first served. */
function limitConcurrency(slots: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = slots;
  return async (work) => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}
