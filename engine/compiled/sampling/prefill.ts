/**
 * @file Prefill with shared-prefix deduplication. A prefix that one sequence has cached is copied to the others: rollouts of a question share
 * its prompt, all questions share the system message and the tools, and rollouts with the same history share the tool response.
 *
 * A cache's bits depend on its tokens and on how they were cut into chunks. The first chunk of a turn begins where the cached tokens end. Every
 * chunk holds CHUNK_TOKENS tokens, except the last, which holds the rest, whatever else is in the batch. Only whole chunks are copied, from a cache in the same
 * prefix state (prefix-states.ts), so on the CPU a copy is bit-identical to a recomputed chunk.
 */
import { appendTokens, entryWithPrefix, prefixStateOf, type SlotEntry } from "./kv-cache-slots.ts";
import type { PrefixStates } from "./prefix-states.ts";
import type { PrefillChunk, SlotDecoder, SlotStorage } from "./slot-decoder.ts";

/** Maximum tokens per chunk. */
const CHUNK_TOKENS = 256;

/** A sequence and all tokens that its cache must contain. */
export interface PrefillTask {
  readonly entry: SlotEntry;
  readonly tokens: readonly number[];
}

export interface Prefiller {
  readonly cache: Pick<SlotStorage, "copy">;
  readonly prefill: SlotDecoder["prefill"];
}

/** Completes every task. `entries` are all caches that may be copied from, including those of the tasks. */
export async function prefill(
  tasks: readonly PrefillTask[],
  entries: readonly SlotEntry[],
  states: PrefixStates,
  decoder: Prefiller,
): Promise<void> {
  let left = tasks;
  while (true) {
    for (const task of left) copyChunks(task, entries, states, decoder.cache);
    left = left.filter(isUnfinished);
    if (left.length === 0) return;
    // One task computes each distinct chunk; in the next round the others copy it.
    const next = left.map((task) => nextState(task, states));
    const first = left.filter((_, i) => next.indexOf(next[i] as number) === i);
    await decoder.prefill(first.map(nextChunk));
    for (const task of first) appendTokens(task.entry, nextTokens(task), nextState(task, states));
  }
}

function copyChunks(
  task: PrefillTask,
  entries: readonly SlotEntry[],
  states: PrefixStates,
  cache: Prefiller["cache"],
): void {
  const { entry } = task;
  while (isUnfinished(task)) {
    const state = nextState(task, states);
    const source = entryWithPrefix(entries, state, chunkEnd(task));
    if (!source) return;
    cache.copy(source.slot, entry.slot, entry.tokens.length, chunkEnd(task));
    appendTokens(entry, nextTokens(task), state);
  }
}

const isUnfinished = ({ entry, tokens }: PrefillTask) => entry.tokens.length < tokens.length;

const chunkEnd = ({ entry, tokens }: PrefillTask) => Math.min(entry.tokens.length + CHUNK_TOKENS, tokens.length);

const nextTokens = (task: PrefillTask) => task.tokens.slice(task.entry.tokens.length, chunkEnd(task));

/** The prefix state after the next chunk enters the cache. */
const nextState = (task: PrefillTask, states: PrefixStates) =>
  states.after(prefixStateOf(task.entry), "prefilled", nextTokens(task));

const nextChunk = (task: PrefillTask): PrefillChunk => ({
  slot: task.entry.slot,
  position: task.entry.tokens.length,
  tokens: nextTokens(task),
});
