/**
 * @file The generations that share a KV cache, and one step of continuous batching over them: admit waiting requests while slots are free,
 * prefill all but their last token, draw the tokens whose distributions are cached, then decode one token for every generation that still
 * runs. Where no distribution is truncated, a block decoder, if there is one, decodes a block of tokens for each instead.
 *
 * In a decode of one token, generations with the same prefix state and temperature share one row. A generation that reaches the same state
 * later draws without a decode, as long as the prefix cache keeps the distribution and some slot still holds that prefix. In a block, every
 * generation has a row of its own.
 */
import type { MgrpoError } from "../../../core/errors.ts";
import type { Sample } from "../../../core/ports.ts";
import { stream } from "../../../core/random.ts";
import { endsWithStop, type SampledToken, sampleToken } from "../../model/token-sampling.ts";
import { BLOCK_TOKENS, type BlockDecoder, type BlockOutput, type BlockRow } from "./block-decoder.ts";
import {
  type DecodeGroup,
  type Generation,
  groupByDistribution,
  isGreedy,
  isUntruncated,
  type NextDistribution,
  nextDistribution,
  type PendingSample,
  pendingToken,
  temperatureOf,
} from "./generation.ts";
import {
  appendTokens,
  entryWithPrefix,
  KvCacheSlots,
  keepCommonPrefix,
  prefixStateOf,
  type SlotEntry,
} from "./kv-cache-slots.ts";
import { type PrefillTask, prefill } from "./prefill.ts";
import { PrefixCache } from "./prefix-cache.ts";
import { PrefixStates } from "./prefix-states.ts";
import type { SlotDecoder } from "./slot-decoder.ts";

export class ContinuousBatch {
  readonly #decoder: SlotDecoder;
  readonly #blockDecoder: BlockDecoder | undefined;
  readonly #vocabulary: number;
  readonly #slots: KvCacheSlots;
  readonly #states = new PrefixStates();
  readonly #prefixes: PrefixCache;
  #waiting: PendingSample[] = [];
  #running: Generation[] = [];

  constructor(decoder: SlotDecoder, blockDecoder: BlockDecoder | undefined, slots: number, vocabulary: number) {
    this.#decoder = decoder;
    this.#blockDecoder = blockDecoder;
    this.#vocabulary = vocabulary;
    this.#slots = new KvCacheSlots(decoder.cache, slots);
    this.#prefixes = new PrefixCache(vocabulary);
  }

  get isEmpty(): boolean {
    return this.#waiting.length + this.#running.length === 0;
  }

  get hasWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** Every unanswered request. */
  get samples(): readonly PendingSample[] {
    return [...this.#waiting, ...this.#running.map(({ sample }) => sample)];
  }

  add(sample: PendingSample): void {
    this.#waiting.push(sample);
  }

  /** Rejects an unanswered request. Its sequence keeps its slot. */
  drop(sample: PendingSample, error: MgrpoError): void {
    this.#waiting = this.#waiting.filter((other) => other !== sample);
    const generation = this.#running.find((other) => other.sample === sample);
    if (generation) this.#end(generation);
    sample.reject(error);
  }

  /** Lets another sequence take this sequence's slot. */
  release(sequence: string): void {
    this.#slots.release(sequence);
  }

  async step(): Promise<void> {
    await this.#admit();
    await this.#decode();
  }

  close(): void {
    this.#decoder.close();
  }

  /** The oldest sequence first: its earlier turns may still be cached, and its rollout is probably the closest to its end. */
  async #admit(): Promise<void> {
    const tasks: PrefillTask[] = [];
    for (const sample of this.#waiting.toSorted((a, b) => a.arrival - b.arrival)) {
      const { request } = sample;
      if (this.#slots.isActive(request.sequence)) continue;
      const isNew = !this.#slots.isKnown(request.sequence);
      const entry = this.#slots.activate(request.sequence);
      if (!entry) break;
      this.#waiting = this.#waiting.filter((other) => other !== sample);
      const { uniform } = stream(...request.stream);
      this.#running.push({ sample, entry, uniform, tokens: [], logProbs: [], isDone: false });
      if (isNew && request.branchOf) this.#slots.branch(entry, request.branchOf);
      const tokens = request.tokens.slice(0, -1);
      keepCommonPrefix(entry, tokens);
      tasks.push({ entry, tokens });
    }
    await prefill(tasks, this.#slots.entries, this.#states, this.#decoder);
  }

  async #decode(): Promise<void> {
    const running = this.#running;
    if (running.length === 0) return;
    if (this.#blockDecoder && running.every(isUntruncated)) return this.#decodeBlock(this.#blockDecoder, running);
    const groups = groupByDistribution(running.flatMap((generation) => this.#drawCached(generation)));
    if (groups.length === 0) return;
    const leaders = groups.map(({ generations: [leader] }) => leader);
    this.#slots.compact(leaders.map(({ entry }) => entry));
    for (const leader of leaders) {
      const { slot, tokens } = leader.entry;
      this.#decoder.place(slot, pendingToken(leader), tokens.length, temperatureOf(leader));
    }
    const probabilities = await this.#decoder.decode(leaders.length);
    for (const group of groups) this.#drawDecoded(group, probabilities);
  }

  /** Draws tokens while their distributions are cached. Returns the generation and its next distribution; empty if the generation ended. */
  #drawCached(generation: Generation): { generation: Generation; next: NextDistribution }[] {
    while (!generation.isDone) {
      const next = nextDistribution(generation, this.#states);
      const row = this.#prefixes.get(next.key);
      const source = row && entryWithPrefix(this.#slots.entries, next.state, generation.entry.tokens.length + 1);
      if (!row || !source) return [{ generation, next }];
      this.#draw(generation, source, next.state, row);
    }
    return [];
  }

  #drawDecoded({ next, generations }: DecodeGroup, probabilities: Float32Array): void {
    const [{ entry: source }] = generations;
    const start = source.slot * this.#vocabulary;
    const row = probabilities.subarray(start, start + this.#vocabulary);
    this.#prefixes.set(next.key, row);
    for (const generation of generations) this.#draw(generation, source, next.state, row);
  }

  /** Draws a token from `probabilities`. `source` caches the generation's prefix, its pending token included. */
  #draw(generation: Generation, source: SlotEntry, state: number, probabilities: Float32Array): void {
    const { entry, uniform, sample } = generation;
    const cached = entry.tokens.length;
    if (source !== entry) this.#decoder.cache.copy(source.slot, entry.slot, cached, cached + 1);
    appendTokens(entry, [pendingToken(generation)], state);
    if (generation.isDone) return;
    this.#take(generation, sampleToken(probabilities, sample.request.sampling, uniform));
  }

  async #decodeBlock(blockDecoder: BlockDecoder, running: readonly Generation[]): Promise<void> {
    this.#slots.compact(running.map(({ entry }) => entry));
    const outputs = await blockDecoder.decode(running.map(blockRow), running.length);
    for (const [i, generation] of running.entries()) this.#takeBlock(generation, outputs[i] as BlockOutput);
  }

  /** Takes a block's tokens until the generation ends, and keeps only the keys and values of the steps that drew them. */
  #takeBlock(generation: Generation, { tokens, logProbs, keep }: BlockOutput): void {
    const { entry } = generation;
    let kept = 0;
    while (kept < tokens.length && !generation.isDone) {
      const pending = [pendingToken(generation)];
      appendTokens(entry, pending, this.#states.after(prefixStateOf(entry), "block-decoded", pending));
      this.#take(generation, { token: tokens[kept] as number, logProb: logProbs[kept] as number });
      kept++;
    }
    keep(kept);
  }

  #take(generation: Generation, { token, logProb }: SampledToken): void {
    const { sample, tokens, logProbs } = generation;
    tokens.push(token);
    logProbs.push(logProb);
    if (endsWithStop(tokens, sample.request.stop)) this.#finish(generation, "stop");
    else if (tokens.length >= sample.limit) this.#finish(generation, "length");
  }

  #finish(generation: Generation, stop: Sample["stop"]): void {
    const { sample, tokens, logProbs } = generation;
    this.#end(generation);
    sample.resolve({ tokens, logProbs, stop });
  }

  #end(generation: Generation): void {
    generation.isDone = true;
    generation.entry.isActive = false;
    this.#running = this.#running.filter((other) => other !== generation);
  }
}

function blockRow(generation: Generation): BlockRow {
  const { entry, sample, tokens, uniform } = generation;
  const draws = Math.min(BLOCK_TOKENS, sample.limit - tokens.length);
  return {
    slot: entry.slot,
    token: pendingToken(generation),
    position: entry.tokens.length,
    temperature: temperatureOf(generation),
    draws: Array.from({ length: draws }, () => (isGreedy(generation) ? -1 : uniform())),
  };
}
