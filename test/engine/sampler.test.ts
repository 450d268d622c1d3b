/**
 * @file Requests that end without a sample, sequences that begin as branches of others, turns that change their sequence's earlier tokens, and
 * contexts that fill the cache or a prefill chunk.
 */
import { expect, test, vi } from "vitest";
import type { SampleRequest } from "../../core/ports.ts";
import { KvCache } from "../../engine/compiled/sampling/kv-cache.ts";
import type { DecodeMode } from "../../engine/compiled/sampling/open-decoder.ts";
import { openCompiledSampler } from "../../engine/compiled/sampling/sampler.ts";
import { openLaneTrainer } from "../../engine/compiled/training/lane-trainer.ts";
import { OPTIONS, tinyCheckpoint } from "./tiny.ts";

const open = () => openCompiledSampler(tinyCheckpoint(), { ...OPTIONS, provider: "cpu" });
const request: SampleRequest = {
  sequence: "s",
  tokens: [1, 2, 3],
  maxTokens: 4,
  stop: [],
  sampling: { temperature: 1, topP: 1, topK: 0 },
  stream: ["s"],
};

test("closing a sampler cancels its requests, and those that come later", async () => {
  const sampler = await open();
  const unanswered = expect(sampler.sample(request)).rejects.toMatchObject({ code: "canceled" });
  const closing = sampler.close();
  await expect(sampler.sample(request)).rejects.toMatchObject({ code: "canceled" });
  await Promise.all([unanswered, closing]);
  await expect(sampler.sample(request)).rejects.toMatchObject({ code: "canceled" });
});

test("releasing a sequence cancels all of its requests and no others", async () => {
  const sampler = await open();
  const canceled = [request, request].map((one) =>
    expect(sampler.sample(one)).rejects.toMatchObject({ code: "canceled" }),
  );
  const other = sampler.sample({ ...request, sequence: "other" });
  sampler.release("s");
  await Promise.all(canceled);
  expect((await other).tokens).toHaveLength(4);
  await sampler.close();
});

test("turns that differ from their sequence's earlier tokens inside a prefill chunk have the bits of new sequences", async () => {
  const sampler = await open();
  // The two sequences differ in their first token only: what is cached of one must not serve the other.
  for (const first of [1, 9]) {
    const turn = { ...request, sequence: `${first}`, stream: [first] };
    await sampler.sample({ ...turn, tokens: [first, 2, 3, 4, 5] });
    const changed = { ...turn, tokens: [first, 2, 6, 7, 8] };
    const found = await sampler.sample(changed);
    const fresh = await open();
    expect(found).toEqual(await fresh.sample(changed));
    await fresh.close();
  }
  await sampler.close();
});

/** The second turns of a sequence and of its branches. `others`: number of other sequences sampled in between. */
async function secondTurns(others: number) {
  const sampler = await openCompiledSampler(tinyCheckpoint(), { ...OPTIONS, slots: 2, provider: "cpu" });
  const first = await sampler.sample(request);
  for (let i = 0; i < others; i++) await sampler.sample({ ...request, sequence: `other ${i}`, stream: ["other", i] });
  const tokens = [...request.tokens, ...first.tokens, 5, 6, 7];
  const second = { ...request, tokens, stream: ["second"] };
  const shared = request.tokens.length + first.tokens.length - 1;
  const branch = { ...second, sequence: "b", branchOf: { sequence: "s", sharedTokens: shared } };
  const [own, branched] = [await sampler.sample(second), await sampler.sample(branch)];
  const late = await sampler.sample({ ...branch, sequence: "late", stream: ["late"] });
  const again = await sampler.sample({ ...second, stream: ["late"] });
  await sampler.close();
  return { own, branched, late, again };
}

test.each([0, 3])("a branch has the bits of its sequence's own next turn, after %s other sequences", async (others) => {
  const { own, branched, late, again } = await secondTurns(others);
  expect(branched).toEqual(own);
  expect(late).toEqual(again);
});

test("a branch that continues differently leaves its sequence's cache as it was", async () => {
  const sampleNext = async (branches: boolean) => {
    const sampler = await open();
    const first = await sampler.sample(request);
    const tokens = [...request.tokens, ...first.tokens, 8, 9, 10];
    const next = { ...request, tokens, stream: ["next"], sampling: { ...request.sampling, temperature: 2 } };
    const branchOf = { sequence: "s", sharedTokens: tokens.length - 4 };
    if (branches) await sampler.sample({ ...next, sequence: "b", stream: ["branch"], branchOf });
    const sample = await sampler.sample(next);
    await sampler.close();
    return sample;
  };
  expect(await sampleNext(true)).toEqual(await sampleNext(false));
});

test.each<[string, Partial<SampleRequest>]>([
  ["turn", {}],
  ["branch", { sequence: "b", branchOf: { sequence: "s", sharedTokens: 6 } }],
])(
  "a %s whose cache could not be restored for lack of memory is sampled when it is requested again",
  async (_name, changes) => {
    const sampleNext = async (fails: boolean) => {
      const sampler = await openCompiledSampler(tinyCheckpoint(), { ...OPTIONS, slots: 2, provider: "cpu" });
      const first = await sampler.sample(request);
      for (const other of ["x", "y", "z"]) await sampler.sample({ ...request, sequence: other, stream: [other] });
      const next = { ...request, tokens: [...request.tokens, ...first.tokens, 5, 6, 7], stream: ["next"], ...changes };
      if (fails) {
        const restore = vi.spyOn(KvCache.prototype, "restore").mockImplementationOnce(() => {
          throw new RangeError("Array buffer allocation failed");
        });
        await expect(sampler.sample(next)).rejects.toThrow("Array buffer allocation failed");
        restore.mockRestore();
      }
      const sample = await sampler.sample(next);
      await sampler.close();
      return sample;
    };
    const [found, expected] = [await sampleNext(true), await sampleNext(false)];
    expect(found.tokens).toEqual(expected.tokens);
    // A branch that is requested again copies nothing from the cache: it computes all its tokens, in other chunks, which round differently.
    expect(found.logProbs).toEqual(expected.logProbs.map((value) => expect.closeTo(value, 4)));
  },
);

/** The cache is widened by 64 tokens at a time, and prefill computes 256 tokens at a time. */
const EDGES = [64, 128, 256].flatMap((edge) => [-2, -1, 0, 1, 2].map((more) => edge + more));

test.each<DecodeMode>(["step", "block", "device"])(
  "%s: log-probs of tokens near the edge of the cache, or of a prefill chunk, match the trainer's up to rounding",
  async (mode) => {
    const options = { ...OPTIONS, contextTokens: 300, provider: "cpu" } as const;
    const [sampler, trainer] = [
      await openCompiledSampler(tinyCheckpoint(), options, mode),
      openLaneTrainer(tinyCheckpoint(), options),
    ];
    const samples = await Promise.all(
      EDGES.map(async (length) => {
        const prompt = Array.from({ length }, (_, t) => (7 * t + length) % 37);
        const turn = { ...request, sequence: `${length}`, stream: [length] };
        const first = await sampler.sample({ ...turn, tokens: prompt });
        const tokens = [...prompt, ...first.tokens, 8, 9];
        const second = await sampler.sample({ ...turn, tokens });
        return { tokens: [...tokens, ...second.tokens], logProbs: [...first.logProbs, 0, 0, ...second.logProbs] };
      }),
    );
    const scored = await trainer.logProbs(
      samples.map(({ tokens }) => tokens),
      1,
    );
    samples.forEach(({ tokens, logProbs }, i) => {
      const found = logProbs.flatMap((value, t) => (t === 4 || t === 5 ? [] : [value]));
      const row = [...(scored[i] ?? [])].slice(tokens.length - logProbs.length);
      expect(found).toEqual([...row.slice(0, 4), ...row.slice(6)].map((value) => expect.closeTo(value, 4)));
    });
    await Promise.all([sampler.close(), trainer.close()]);
  },
);
