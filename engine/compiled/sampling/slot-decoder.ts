/**
 * @file The interface of the sampler's decoders, whose KV cache is on the host or on the device (host-decoder.ts, device-decoder.ts): they
 * move and copy slots, prefill several slots at a time, and decode one token for each of the lowest slots.
 */

/** New tokens for a slot whose cache already holds `position` tokens. */
export interface PrefillChunk {
  readonly slot: number;
  readonly position: number;
  readonly tokens: readonly number[];
}

/** One sequence's keys and values outside its slot: [KV, hd, n] and [KV, n, hd] per layer. */
export interface ParkedKv {
  readonly tokens: number;
  readonly arrays: readonly Float32Array[];
}

export interface SlotStorage {
  /** Copies positions [begin, end) of slot `from` to slot `to`. Before `begin` the two are already equal. */
  copy(from: number, to: number, begin: number, end: number): void;
  /** Copies the whole slot `from` to slot `to`. */
  copyAll(from: number, to: number): void;
  swap(a: number, b: number): void;
  /** A copy of a slot that is about to be reused; undefined where recomputing is cheaper. */
  park(slot: number, tokens: number): ParkedKv | undefined;
  restore(slot: number, parked: ParkedKv): void;
}

export interface SlotDecoder {
  readonly cache: SlotStorage;
  /** Appends each chunk to its slot's cache. */
  prefill(chunks: readonly PrefillChunk[]): Promise<void>;
  /** Sets a slot's input to the next decode: its pending token at its position, and the temperature to predict at. */
  place(slot: number, token: number, position: number, temperature: number): void;
  /**
   * Decodes one token for every slot set by `place`, all below `count`. Returns probabilities, at least [count, V] and valid until the next
   * decode.
   */
  decode(count: number): Promise<Float32Array>;
  close(): void;
}

/** Maximum tokens per prefill batch, every chunk padded to the longest. Quantized weights add padding to a multiple of QUANTIZED_ROWS. */
const MAXIMUM_BATCH_TOKENS = 1024;
/** Maximum padding tokens per prefill batch: beyond this, another batch is cheaper. */
const MAXIMUM_PADDING = 96;
/** A product with a single row takes the matrix-vector path, which rounds differently. */
export const MINIMUM_TOKENS = 2;
export const MINIMUM_SLOTS = 2;
/** Rows that a product of quantized weights computes together. On some CPUs, rows left over are summed in another order. */
const QUANTIZED_ROWS = 4;
export const paddedRows = (rows: number): number => QUANTIZED_ROWS * Math.ceil(rows / QUANTIZED_ROWS);

/** Groups chunks of similar length to limit padding. */
export function prefillBatches(chunks: readonly PrefillChunk[]): PrefillChunk[][] {
  const batches: PrefillChunk[][] = [];
  let padding = 0;
  for (const chunk of [...chunks].sort((a, b) => b.tokens.length - a.tokens.length)) {
    const last = batches.at(-1);
    const longest = last?.[0]?.tokens.length ?? 0;
    padding += longest - chunk.tokens.length;
    if (last && padding <= MAXIMUM_PADDING && (last.length + 1) * longest <= MAXIMUM_BATCH_TOKENS) last.push(chunk);
    else {
      batches.push([chunk]);
      padding = 0;
    }
  }
  return batches;
}
