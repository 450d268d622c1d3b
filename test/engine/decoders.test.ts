/**
 * @file The decode modes of GPUs, run on the CPU: a cache on the device and decoding in blocks give the results of the host decoder. After a
 * failed decode, the next one uses the right slots.
 */
import { expect, test } from "vitest";
import type { CheckpointFiles } from "../../core/ports.ts";
import { parseCheckpoint } from "../../engine/checkpoint/weights.ts";
import { type Feeds, type GraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { cacheNames, traceExtend } from "../../engine/compiled/graphs/extend.ts";
import { traceExtendOnDevice, updatedCacheName } from "../../engine/compiled/graphs/extend-on-device.ts";
import { parameterTensors } from "../../engine/compiled/graphs/weights.ts";
import { DeviceDecoder } from "../../engine/compiled/sampling/device-decoder.ts";
import { HostDecoder } from "../../engine/compiled/sampling/host-decoder.ts";
import type { DecodeMode } from "../../engine/compiled/sampling/open-decoder.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { MINIMUM_SLOTS, type SlotDecoder } from "../../engine/compiled/sampling/slot-decoder.ts";
import { sharedSession } from "../../engine/compiled/shared-sessions.ts";
import type { Lengths } from "../../engine/compiled/trace/dimensions.ts";
import { localFiles } from "../fixtures/checkpoints.ts";
import { OPTIONS, TINY, tinyCheckpoint } from "./tiny.ts";

const SLOTS = 4;
const CONTEXT = 90;
const options = { ...OPTIONS, provider: "cpu" } as const;
const shape = { config: TINY, lora: null };

async function openBoth(): Promise<[HostDecoder, DeviceDecoder]> {
  const { layout, weights } = parseCheckpoint(tinyCheckpoint());
  const feeds = parameterTensors(layout, weights);
  const [host, device] = await Promise.all([
    sharedSession("extend", shape, options, traceExtend),
    sharedSession("extend-on-device", shape, options, traceExtendOnDevice),
  ]);
  return [new HostDecoder(host, TINY, feeds, SLOTS, CONTEXT), new DeviceDecoder(device, TINY, feeds, SLOTS, CONTEXT)];
}

/** Runs prefills, copies and swaps; returns the probabilities of every decoded row. */
async function decodeRows(decoder: SlotDecoder): Promise<number[][]> {
  const rows: number[][] = [];
  const lengths = [0, 0, 0, 0];
  const fill = async (slot: number, tokens: number[]) => {
    await decoder.prefill([{ slot, position: lengths[slot] ?? 0, tokens }]);
    lengths[slot] = (lengths[slot] ?? 0) + tokens.length;
  };
  const decode = async (tokens: number[], temperature = 1) => {
    tokens.forEach((token, slot) => {
      decoder.place(slot, token, lengths[slot] ?? 0, temperature);
    });
    const probabilities = await decoder.decode(tokens.length);
    tokens.forEach((_, slot) => {
      lengths[slot] = (lengths[slot] ?? 0) + 1;
      rows.push([...probabilities.subarray(slot * TINY.vocabulary, (slot + 1) * TINY.vocabulary)]);
    });
  };
  const swapLengths = (a: number, b: number) => {
    [lengths[a], lengths[b]] = [lengths[b] ?? 0, lengths[a] ?? 0];
  };
  await decoder.prefill([
    { slot: 0, position: 0, tokens: [1, 2, 3, 4, 5, 6, 7] },
    { slot: 2, position: 0, tokens: [9, 8] },
  ]);
  [lengths[0], lengths[2]] = [7, 2];
  decoder.cache.copy(0, 1, 0, 7);
  lengths[1] = 7;
  await fill(1, [11, 12]);
  await decode([20, 21, 22]);
  decoder.cache.swap(0, 2);
  swapLengths(0, 2);
  decoder.cache.swap(2, 1);
  swapLengths(2, 1);
  await decode([23, 24], 0.7);
  decoder.cache.copyAll(2, 3);
  lengths[3] = lengths[2] ?? 0;
  lengths[2] = 0;
  await fill(
    2,
    Array.from({ length: 70 }, (_, i) => i % 30),
  );
  await decode([25, 26, 27, 28]);
  await decode([29, 30, 31, 32], 1.3);
  decoder.close();
  return rows;
}

test("device and host caches give the same probabilities after prefills, copies and swaps", async () => {
  const [host, device] = await openBoth();
  const [wanted, found] = [await decodeRows(host), await decodeRows(device)];
  expect(wanted).toHaveLength(13);
  wanted.forEach((row, i) => {
    expect(row.reduce((sum, p) => sum + p, 0)).toBeCloseTo(1, 5);
    row.forEach((p, token) => {
      expect(Math.abs((found[i]?.[token] ?? Number.NaN) - p), `row ${i}`).toBeLessThan(1e-5);
    });
  });
});

test.each(["graph run", "cache growth"])(
  "after a decode whose %s failed, the next one writes only to its own slots",
  async (failing) => {
    const names = Array.from({ length: TINY.layers }, (_, layer) => cacheNames(layer));
    const newRows = () => new Float32Array(MINIMUM_SLOTS * TINY.kvHeads * TINY.headWidth).fill(1);
    let isBroken = true;
    const session = {
      async run() {
        if (isBroken) throw new Error("out of memory");
        return Object.fromEntries(
          names.flatMap(({ newKeys, newValues }) => [newKeys, newValues].map((name) => [name, newRows()])),
        );
      },
    } as unknown as GraphSession;
    const decoder = new HostDecoder(session, TINY, {}, SLOTS, CONTEXT);
    // Slot 2, at position 0, reserves a single token: this fails, after slot 1's reservation has succeeded.
    decoder.cache.reserve = (tokens) => {
      if (isBroken && failing === "cache growth" && tokens === 1) throw new Error("out of memory");
    };
    const decode = async (count: number, ...placed: [slot: number, position: number][]) => {
      for (const [slot, position] of placed) decoder.place(slot, 5, position, 1);
      await decoder.decode(count);
    };
    await expect(decode(3, [1, 3], [2, 0])).rejects.toThrow("out of memory");
    isBroken = false;
    await decode(1, [0, 0]);
    const isWritten = (slot: number) => decoder.cache.park(slot, 4).arrays.some((array) => array.some((x) => x !== 0));
    expect([isWritten(0), isWritten(1)]).toEqual([true, false]);
  },
);

test("after a failed decode on the device, the next one still reorders the slots", async () => {
  const orders: number[][] = [];
  let isBroken = true;
  const session = {
    async runToTensors(_lengths: Lengths, feeds: Feeds): Promise<Feeds> {
      orders.push(Array.from(feeds["order"]?.data as Int32Array));
      if (isBroken) throw new Error("out of memory");
      const updated = Object.entries(feeds).map(([name, value]) => [updatedCacheName(name), value] as const);
      return { ...Object.fromEntries(updated), probabilities: tensor(new Float32Array(), [0]) };
    },
  } as unknown as GraphSession;
  const decoder = new DeviceDecoder(session, TINY, {}, SLOTS, CONTEXT);
  decoder.cache.swap(0, 2);
  await expect(decoder.decode(1)).rejects.toThrow("out of memory");
  isBroken = false;
  await decoder.decode(1);
  await decoder.decode(1);
  expect(orders).toEqual([
    [2, 1, 0, 3],
    [2, 1, 0, 3],
    [0, 1, 2, 3],
  ]);
});

test.each<[string, CheckpointFiles]>([
  ["weights in memory", tinyCheckpoint()],
  ["bfloat16 on disk", localFiles("llama3-tied-bf16")],
])("blocks, and a cache on the device, sample the tokens that single steps sample: %s", async (_name, files) => {
  const lengths = [3, 40, 50];
  const generate = async (mode: DecodeMode) => {
    const sampler = await openCompiledSampler(files, { ...options, contextTokens: CONTEXT }, mode);
    const samples = await Promise.all(
      lengths.map((maxTokens, i) =>
        sampler.sample({
          sequence: `s${i}`,
          tokens: [i, 7, 9],
          maxTokens,
          stop: [],
          stream: ["blocks", i],
          sampling: { temperature: i === 1 ? 0 : 0.8, topP: 1, topK: 0 },
        }),
      ),
    );
    await sampler.close();
    return samples;
  };
  const wanted = await generate("step");
  expect(wanted.map(({ tokens }) => tokens.length)).toEqual(lengths);
  for (const mode of ["block", "device"] as const) {
    const found = await generate(mode);
    found.forEach(({ tokens, logProbs }, i) => {
      expect(tokens, mode).toEqual(wanted[i]?.tokens);
      logProbs.forEach((logProb, t) => {
        expect(logProb).toBeCloseTo(wanted[i]?.logProbs[t] ?? Number.NaN, 4);
      });
    });
  }
});
