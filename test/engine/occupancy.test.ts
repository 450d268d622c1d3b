/** @file Batch occupancy of a sampler while rollouts of different lengths end: a slot that becomes free is refilled before the next decode. */
import { expect, test } from "vitest";
import { parseCheckpoint } from "../../engine/checkpoint/weights.ts";
import { parameterTensors } from "../../engine/compiled/graphs/weights.ts";
import { ContinuousBatch } from "../../engine/compiled/sampling/continuous-batch.ts";
import { openDecoder } from "../../engine/compiled/sampling/open-decoder.ts";
import type { SlotDecoder } from "../../engine/compiled/sampling/slot-decoder.ts";
import { OPTIONS, TINY, tinyCheckpoint } from "./tiny.ts";

const SLOTS = 4;
const PROMPT = [3, 1, 4, 1, 5];

/** What one step of the batch ran: prompts prefilled, then rows decoded. */
interface Step {
  readonly prefilled: number;
  readonly decoded: number;
}

/** Samples `lengths[i]` tokens for rollout i. All are requested at the start. */
async function stepsOf(lengths: readonly number[]): Promise<Step[]> {
  const { layout, weights } = parseCheckpoint(tinyCheckpoint());
  const feeds = parameterTensors(layout, weights);
  const shape = { config: TINY, lora: null };
  const options = { ...OPTIONS, provider: "cpu" } as const;
  const { decoder } = await openDecoder({ shape, external: new Map(), feeds }, SLOTS, options, "step");
  const now = { prefilled: 0, decoded: 0 };
  const counting: SlotDecoder = {
    cache: decoder.cache,
    async prefill(chunks) {
      now.prefilled += chunks.length;
      await decoder.prefill(chunks);
    },
    place: (...row) => decoder.place(...row),
    async decode(count) {
      now.decoded += count;
      return decoder.decode(count);
    },
    close: () => decoder.close(),
  };
  const batch = new ContinuousBatch(counting, undefined, SLOTS, TINY.vocabulary);
  for (const [number, limit] of lengths.entries()) batch.add(rollout(number, limit));
  const steps: Step[] = [];
  while (!batch.isEmpty) {
    await batch.step();
    steps.push({ ...now });
    Object.assign(now, { prefilled: 0, decoded: 0 });
  }
  return steps;
}

/** Each rollout has a prompt of its own, so that none shares another's cache or decode. */
function rollout(number: number, limit: number) {
  const sequence = `rollout ${number}`;
  const sampling = { temperature: 1, topP: 1, topK: 0 };
  const request = { sequence, tokens: [number, ...PROMPT], maxTokens: limit, stop: [], sampling, stream: [sequence] };
  const reject = (error: unknown) => expect.fail(String(error));
  return { request, arrival: number, limit, resolve: () => {}, reject };
}

test("alongside a long rollout, slots that become free are refilled: no decode has an idle row while a rollout waits", async () => {
  // One rollout of 12 tokens holds a slot; nine of 3 tokens take turns in the other three: 9 * 3 / 3 decodes.
  // Then the long one is alone.
  const steps = await stepsOf([12, ...Array<number>(9).fill(3)]);
  expect(steps.map(({ decoded }) => decoded)).toEqual([...Array<number>(9).fill(SLOTS), 1, 1, 1]);
  expect(steps.map(({ prefilled }) => prefilled)).toEqual([4, 0, 0, 3, 0, 0, 3, 0, 0, 0, 0, 0]);
});
