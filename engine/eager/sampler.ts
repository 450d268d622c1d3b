/** @file The sampler in plain tfjs: recomputes the whole prefix for every token of every sequence. Simple rather than fast. */
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import * as tf from "@tensorflow/tfjs-core";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles, EngineOptions, Sample, SampleRequest, Sampler } from "../../core/ports.ts";
import { stream } from "../../core/random.ts";
import { readAdapter } from "../checkpoint/adapter.ts";
import { parseCheckpoint } from "../checkpoint/weights.ts";
import { checkSampleRequest } from "../model/input-checks.ts";
import { endsWithStop, sampleToken } from "../model/token-sampling.ts";
import { type EagerBackend, onBackend } from "./backend.ts";
import { headOf, hiddenStates, weightTensors } from "./model.ts";

export function openEagerSampler(files: CheckpointFiles, options: EngineOptions, backend: EagerBackend): Sampler {
  const { config, layout, weights } = parseCheckpoint(files);
  const adapter = readAdapter(files, config);
  const lora = adapter?.lora ?? null;
  const released = new Set<SampleRequest>();
  const open = new Set<SampleRequest>();
  let isClosed = false;

  const probabilities = (tokens: readonly number[], temperature: number): Float32Array => {
    return onBackend(backend, () => {
      const tensors = {
        ...weightTensors(layout, weights),
        ...(adapter && weightTensors(adapter.layout, adapter.weights)),
      };
      const hidden = tf.slice2d(hiddenStates(config, tensors, tokens, lora), [tokens.length - 1, 0], [1, config.width]);
      const logits = tf.matMul(tf.mul<tf.Tensor2D>(hidden, 1 / temperature), headOf(config, tensors), false, true);
      return tf.softmax(logits).dataSync() as Float32Array;
    });
  };

  const generate = async (request: SampleRequest, signal: AbortSignal | undefined): Promise<Sample> => {
    const { uniform } = stream(...request.stream);
    const limit = Math.min(request.maxTokens, options.contextTokens - request.tokens.length);
    const tokens: number[] = [];
    const logProbs: number[] = [];
    while (tokens.length < limit) {
      await yieldToEventLoop();
      if (signal?.aborted || released.delete(request)) throw canceled(request);
      const row = probabilities([...request.tokens, ...tokens], request.sampling.temperature || 1);
      const { token, logProb } = sampleToken(row, request.sampling, uniform);
      tokens.push(token);
      logProbs.push(logProb);
      if (endsWithStop(tokens, request.stop)) return { tokens, logProbs, stop: "stop" };
    }
    return { tokens, logProbs, stop: "length" };
  };
  const release = (matches: (request: SampleRequest) => boolean) => {
    for (const request of open) if (matches(request)) released.add(request);
  };

  return {
    async sample(request, signal) {
      checkSampleRequest(request, config.vocabulary, options.contextTokens);
      if (isClosed || signal?.aborted) throw canceled(request);
      open.add(request);
      return generate(request, signal).finally(() => {
        open.delete(request);
        released.delete(request);
      });
    },
    release: (sequence) => release((request) => request.sequence === sequence),
    async close() {
      isClosed = true;
      release(() => true);
    },
  };
}

const canceled = ({ sequence }: SampleRequest) => new MgrpoError("canceled", `sampling of '${sequence}' was canceled`);
