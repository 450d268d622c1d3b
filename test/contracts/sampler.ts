/** @file What every Sampler does, whatever it computes with. */
import { expect, test } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { Sample, SampleRequest, Sampler } from "../../core/ports.ts";
import type { TrainerSubject } from "./trainer.ts";

const AT_1 = { temperature: 1, topP: 1, topK: 0 };
const GREEDY = { temperature: 0, topP: 1, topK: 0 };

function request(sequence: string, tokens: readonly number[], changes: Partial<SampleRequest> = {}): SampleRequest {
  return {
    sequence,
    tokens,
    maxTokens: 6,
    stop: [],
    sampling: AT_1,
    stream: ["test", sequence, tokens.length],
    ...changes,
  };
}

/** A conversation of several turns; the tool's tokens come between them. Returns all tokens and the log-probs of the sampled ones. */
async function converse(sampler: Sampler, name: string, prompt: readonly number[], temperature = 1, turns = 3) {
  let tokens = [...prompt];
  const logProbs: number[] = tokens.map(() => 0);
  const sampling = { ...AT_1, temperature };
  for (let turn = 0; turn < turns; turn++) {
    const sample = await sampler.sample(request(name, tokens, { sampling, maxTokens: 4 + turn, stop: [[9]] }));
    const response = turn % 2 ? [21] : [20, 22 + turn, 21, 3];
    tokens = [...tokens, ...sample.tokens, ...response];
    logProbs.push(...sample.logProbs, ...response.map(() => 0));
  }
  sampler.release(name);
  return { tokens, logProbs };
}

type Said = Pick<Sample, "tokens" | "logProbs">;

export function samplerContract(subject: TrainerSubject) {
  const open = (slots = subject.options.slots) =>
    subject.engine.openSampler(subject.files, { ...subject.options, slots });
  const expectSame = (found: Said, wanted: Said | undefined) => {
    if (!subject.rounds) return expect(found).toEqual(wanted);
    expect(found.tokens).toEqual(wanted?.tokens);
    found.logProbs.forEach((logProb, t) => {
      expect(logProb).toBeCloseTo(wanted?.logProbs[t] ?? Number.NaN, 5);
    });
  };
  const prompts = Array.from({ length: 7 }, (_, k) => Array.from({ length: 1 + 5 * k }, (_, i) => (i * 7 + k) % 30));

  test("log-probs of sampled tokens are the training graph's, through turns, tool responses and temperatures", async () => {
    const [sampler, trainer] = [await open(), await subject.engine.openTrainer(subject.files, subject.options)];
    for (const temperature of subject.temperature ? [subject.temperature] : [0.6, 1]) {
      const talks = await Promise.all(prompts.map((prompt, k) => converse(sampler, `t${k}`, prompt, temperature)));
      const reference = await trainer.logProbs(
        talks.map((talk) => talk.tokens),
        temperature,
      );
      talks.forEach(({ logProbs }, k) => {
        logProbs.forEach((logProb, t) => {
          if (logProb !== 0) expect(Math.abs(logProb - (reference[k]?.[t] ?? 0))).toBeLessThan(1e-4);
        });
      });
    }
    await Promise.all([sampler.close(), trainer.close()]);
  });

  test("a conversation has the same bits in any slot, with any neighbours, in any order of arrival", async () => {
    const run = async (order: number[], slots: number) => {
      const sampler = await open(slots);
      const talks = await Promise.all(
        order.map(async (k) => [k, await converse(sampler, `t${k}`, prompts[k] ?? [])] as const),
      );
      await sampler.close();
      return new Map(talks.sort(([a], [b]) => a - b));
    };
    const all = await run([0, 1, 2, 3, 4, 5, 6], 7);
    // Fewer slots than conversations: they wait, and are parked between turns.
    for (const others of [
      await run([6, 2, 0, 5, 1, 3, 4], 7),
      await run([3, 6, 2, 0, 5, 1, 4], 2),
      await run([4], 3),
    ]) {
      for (const [k, talk] of others) expectSame(talk, all.get(k));
    }
  });

  test.each([
    ["and say different things", 1],
    ["and say the same for a while", 0.2],
  ])("rollouts of a question have the bits that each would have alone, %s", async (_name, low) => {
    const temperature = subject.temperature ?? low;
    const prompt = prompts[4] ?? [];
    const names = ["a", "b", "c", "d"];
    const together = await open(3);
    // The last comes when the others have been released.
    const talks = await Promise.all(names.slice(1).map((name) => converse(together, name, prompt, temperature)));
    talks.unshift(await converse(together, "a", prompt, temperature));
    await together.close();
    for (const [k, name] of names.entries()) {
      const alone = await open(3);
      expectSame(await converse(alone, name, prompt, temperature), talks[k]);
      await alone.close();
    }
  });

  test("stop sequences end a sample and belong to it", async () => {
    const sampler = await open();
    const free = await sampler.sample(request("a", [1, 2, 3], { maxTokens: 12, sampling: GREEDY }));
    expect(free).toMatchObject({ stop: "length", tokens: { length: 12 }, logProbs: { length: 12 } });
    const pair = free.tokens.slice(2, 4);
    const stopped = await sampler.sample(request("b", [1, 2, 3], { maxTokens: 12, sampling: GREEDY, stop: [pair] }));
    expect(stopped.stop).toBe("stop");
    expect(stopped.tokens.slice(-2)).toEqual(pair);
    expect(free.tokens.slice(0, stopped.tokens.length)).toEqual(stopped.tokens);
    await sampler.close();
  });

  test("greedy takes the likeliest token and reports its log-prob at temperature 1; top-k 1 is greedy", async () => {
    const [sampler, trainer] = [await open(), await subject.engine.openTrainer(subject.files, subject.options)];
    const prompt = [4, 8, 15];
    const greedy = await sampler.sample(request("g", prompt, { maxTokens: 1, sampling: GREEDY }));
    const every = await trainer.logProbs(
      Array.from({ length: 30 }, (_, token) => [...prompt, token]),
      1,
    );
    const best = Math.max(...every.map((row) => row[3] ?? 0));
    expect(greedy.logProbs[0] ?? 0).toBeGreaterThan(best - 1e-4);
    const topK = { temperature: 1, topP: 1, topK: 1 };
    expectSame(await sampler.sample(request("k", prompt, { maxTokens: 1, sampling: topK })), greedy);
    const topP = { temperature: 1, topP: 1e-6, topK: 0 };
    expectSame(await sampler.sample(request("p", prompt, { maxTokens: 1, sampling: topP })), greedy);
    await Promise.all([sampler.close(), trainer.close()]);
  });

  test("draws follow the distribution", async () => {
    const [sampler, trainer] = [await open(), await subject.engine.openTrainer(subject.files, subject.options)];
    const draws: Sample[] = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        sampler.sample(request(`d${i}`, [6, 13], { maxTokens: 1 })).finally(() => sampler.release(`d${i}`)),
      ),
    );
    const [logProbs] = await trainer.logProbs([[6, 13, draws[0]?.tokens[0] ?? 0]], 1);
    const p = Math.exp(logProbs?.[2] ?? 0);
    const share = draws.filter((sample) => sample.tokens[0] === draws[0]?.tokens[0]).length / draws.length;
    expect(Math.abs(share - p)).toBeLessThan(4 * Math.sqrt((p * (1 - p)) / draws.length) + 1e-9);
    await Promise.all([sampler.close(), trainer.close()]);
  });

  test("a sequence ends at the context, and no tokens are asked for free", async () => {
    const sampler = await open();
    const { contextTokens } = subject.options;
    const long = Array.from({ length: contextTokens - 3 }, (_, i) => i % 30);
    const sample = await sampler.sample(request("l", long, { maxTokens: 50 }));
    expect(sample).toMatchObject({ stop: "length", tokens: { length: 3 } });
    expect((await sampler.sample(request("n", [1], { maxTokens: 0 }))).tokens).toEqual([]);
    await expect(sampler.sample(request("e", []))).rejects.toMatchObject({ code: "config-invalid" });
    await expect(sampler.sample(request("v", [9999]))).rejects.toMatchObject({ code: "tokenizer-damaged" });
    await sampler.close();
  });

  test("an aborted sample is cancelled, and the others do not notice", async () => {
    const sampler = await open();
    const abort = new AbortController();
    const alone = await sampler.sample(request("x", [1, 2, 3], { maxTokens: 20 }));
    sampler.release("x");
    const doomed = sampler.sample(request("y", [5, 6], { maxTokens: 100 }), abort.signal);
    const other = sampler.sample(request("x", [1, 2, 3], { maxTokens: 20 }));
    abort.abort();
    await expect(doomed).rejects.toSatisfy((error) => error instanceof MgrpoError && error.code === "cancelled");
    expectSame(await other, alone);
    await expect(sampler.sample(request("z", [1]), AbortSignal.abort())).rejects.toMatchObject({ code: "cancelled" });
    await sampler.close();
  });
}
