/** @file The contract of Sampler, run against every engine. */
import { expect, test } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { Sample, SampleRequest, Sampler } from "../../core/ports.ts";
import type { EngineSubject } from "./trainer.ts";

const CANCELED = { code: "canceled" };
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

/**
 * A conversation of three turns, each followed by tool tokens. Returns all tokens, the log-probs of the sampled ones (0 elsewhere), and
 * the positions of the sampled ones.
 */
async function converse(sampler: Sampler, name: string, prompt: readonly number[], temperature = 1) {
  let tokens = [...prompt];
  const logProbs: number[] = tokens.map(() => 0);
  const positions_A: number[] = [];
  const sampling = { ...AT_1, temperature };
  for (let turn = 0; turn < 3; turn++) {
    const sample = await sampler.sample(request(name, tokens, { sampling, maxTokens: 4 + turn, stop: [[9]] }));
    const response = turn % 2 ? [21] : [20, 22 + turn, 21, 3];
    for (const a of sample.tokens.keys()) positions_A.push(tokens.length + a);
    tokens = [...tokens, ...sample.tokens, ...response];
    logProbs.push(...sample.logProbs, ...response.map(() => 0));
  }
  sampler.release(name);
  return { tokens, logProbs, positions_A };
}

type Sampled = Pick<Sample, "tokens" | "logProbs">;

const PROMPTS = Array.from({ length: 7 }, (_, k) => Array.from({ length: 1 + 5 * k }, (_, i) => (i * 7 + k) % 30));

const openSampler = ({ engine, files, options }: EngineSubject, slots = options.slots) =>
  engine.openSampler(files, { ...options, slots });

const openTrainer = ({ engine, files, options }: EngineSubject) => engine.openTrainer(files, options);

const toleranceOf = ({ tolerance = 1e-4 }: EngineSubject) => tolerance;

/** The same bits; where the engine's rounding depends on the batch, the same tokens and nearly the same log-probs. */
function expectSame(subject: EngineSubject, found: Sampled, wanted: Sampled | undefined) {
  if (!subject.roundingDependsOnBatch) return expect(found).toEqual(wanted);
  expect(found.tokens).toEqual(wanted?.tokens);
  found.logProbs.forEach((logProb, t) => {
    expect(logProb).toBeCloseTo(wanted?.logProbs[t] ?? Number.NaN, 5);
  });
}

export function samplerContract(subject: EngineSubject) {
  testLogProbs(subject);
  testIndependence(subject);
  testSharedPrompt(subject);
  testStopSequences(subject);
  testGreedy(subject);
  testDistribution(subject);
  testLimits(subject);
  testCancellation(subject);
}

function testLogProbs(subject: EngineSubject) {
  test("log-probs of sampled tokens match the trainer's within the tolerance, over turns, tool responses and temperatures", async () => {
    const [sampler, trainer] = [await openSampler(subject), await openTrainer(subject)];
    for (const temperature of subject.temperature ? [subject.temperature] : [0.6, 1]) {
      const conversations = await Promise.all(
        PROMPTS.map((prompt, k) => converse(sampler, `t${k}`, prompt, temperature)),
      );
      const reference = await trainer.logProbs(
        conversations.map((conversation) => conversation.tokens),
        temperature,
      );
      conversations.forEach(({ logProbs, positions_A }, k) => {
        for (const t of positions_A) {
          const difference = (logProbs[t] ?? Number.NaN) - (reference[k]?.[t] ?? Number.NaN);
          expect(Math.abs(difference)).toBeLessThan(toleranceOf(subject));
        }
      });
    }
    await Promise.all([sampler.close(), trainer.close()]);
  });
}

function testIndependence(subject: EngineSubject) {
  test("a sequence has the same tokens and log-probs in any slot, with any neighbors, in any order of arrival", async () => {
    const run = async (order: number[], slots: number) => {
      const sampler = await openSampler(subject, slots);
      const conversations = await Promise.all(
        order.map(async (k) => [k, await converse(sampler, `t${k}`, PROMPTS[k] ?? [])] as const),
      );
      await sampler.close();
      return new Map(conversations.sort(([a], [b]) => a - b));
    };
    const all = await run([0, 1, 2, 3, 4, 5, 6], 7);
    // With fewer slots than sequences, sequences wait for a slot and are parked between turns.
    for (const others of [
      await run([6, 2, 0, 5, 1, 3, 4], 7),
      await run([3, 6, 2, 0, 5, 1, 4], 2),
      await run([4], 3),
    ]) {
      for (const [k, conversation] of others) expectSame(subject, conversation, all.get(k));
    }
  });
}

function testSharedPrompt(subject: EngineSubject) {
  test.each(subject.temperature ? [subject.temperature] : [1, 0.1])(
    "rollouts of a question have the same tokens and log-probs as each alone, at temperature %d",
    async (temperature) => {
      const prompt = PROMPTS[4] ?? [];
      const names = ["a", "b", "c", "d"];
      const together = await openSampler(subject, 3);
      // "a" starts after the others have been released.
      const conversations = await Promise.all(
        names.slice(1).map((name) => converse(together, name, prompt, temperature)),
      );
      conversations.unshift(await converse(together, "a", prompt, temperature));
      await together.close();
      // At a low temperature, some also share the first tokens that they sample, of which two are compared.
      const starts = new Set(conversations.map(({ tokens }) => String(tokens.slice(0, prompt.length + 2))));
      if (temperature < 1) expect(starts.size).toBeLessThan(names.length);
      for (const [k, name] of names.entries()) {
        const alone = await openSampler(subject, 3);
        expectSame(subject, await converse(alone, name, prompt, temperature), conversations[k]);
        await alone.close();
      }
    },
  );
}

function testStopSequences(subject: EngineSubject) {
  test("a stop sequence ends a sample and is part of it", async () => {
    const sampler = await openSampler(subject);
    const free = await sampler.sample(request("a", [1, 2, 3], { maxTokens: 12, sampling: GREEDY }));
    expect(free).toMatchObject({ stop: "length", tokens: { length: 12 }, logProbs: { length: 12 } });
    const pair = free.tokens.slice(2, 4);
    const stopped = await sampler.sample(request("b", [1, 2, 3], { maxTokens: 12, sampling: GREEDY, stop: [pair] }));
    // Where the pair occurs first: greedy samples may repeat themselves.
    const end = free.tokens.findIndex((token, i) => free.tokens[i - 1] === pair[0] && token === pair[1]) + 1;
    expect(stopped).toMatchObject({ stop: "stop", tokens: free.tokens.slice(0, end), logProbs: { length: end } });
    await sampler.close();
  });
}

function testGreedy(subject: EngineSubject) {
  test("greedy takes the most probable token and reports its log-prob at temperature 1; top-k 1 and a tiny top-p do the same", async () => {
    const [sampler, trainer] = [await openSampler(subject), await openTrainer(subject)];
    const prompt = [4, 8, 15];
    const greedy = await sampler.sample(request("g", prompt, { maxTokens: 1, sampling: GREEDY }));
    // The vocabulary may be larger than the 30 tokens that are compared.
    const compared = [...Array(30).keys(), greedy.tokens[0] ?? expect.fail()];
    const rows = await trainer.logProbs(
      compared.map((token) => [...prompt, token]),
      1,
    );
    const logProbs = rows.map((row) => row[prompt.length] ?? Number.NaN);
    const chosen = logProbs.at(-1) ?? Number.NaN;
    expect(Math.abs((greedy.logProbs[0] ?? Number.NaN) - chosen)).toBeLessThan(toleranceOf(subject));
    expect(chosen).toBeGreaterThan(Math.max(...logProbs) - toleranceOf(subject));
    const topK = { temperature: 1, topP: 1, topK: 1 };
    expectSame(subject, await sampler.sample(request("k", prompt, { maxTokens: 1, sampling: topK })), greedy);
    const topP = { temperature: 1, topP: 1e-6, topK: 0 };
    expectSame(subject, await sampler.sample(request("p", prompt, { maxTokens: 1, sampling: topP })), greedy);
    await Promise.all([sampler.close(), trainer.close()]);
  });
}

function testDistribution(subject: EngineSubject) {
  test("a token is sampled as often as its probability predicts", async () => {
    const [sampler, trainer] = [await openSampler(subject), await openTrainer(subject)];
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
}

function testLimits(subject: EngineSubject) {
  test("a sequence ends at the context limit; maxTokens 0 gives an empty sample; empty prompts and unknown tokens are refused", async () => {
    const sampler = await openSampler(subject);
    const { contextTokens } = subject.options;
    const long = Array.from({ length: contextTokens - 3 }, (_, i) => i % 30);
    const sample = await sampler.sample(request("l", long, { maxTokens: 50 }));
    expect(sample).toMatchObject({ stop: "length", tokens: { length: 3 } });
    expect((await sampler.sample(request("n", [1], { maxTokens: 0 }))).tokens).toEqual([]);
    await expect(sampler.sample(request("e", []))).rejects.toMatchObject({ code: "config-invalid" });
    await expect(sampler.sample(request("v", [9999]))).rejects.toMatchObject({ code: "tokenizer-damaged" });
    await sampler.close();
  });
}

function testCancellation(subject: EngineSubject) {
  test("an aborted sample is canceled without affecting others", async () => {
    const sampler = await openSampler(subject);
    const abort = new AbortController();
    const alone = await sampler.sample(request("x", [1, 2, 3], { maxTokens: 20 }));
    sampler.release("x");
    const doomed = sampler.sample(request("y", [5, 6], { maxTokens: 100 }), abort.signal);
    const other = sampler.sample(request("x", [1, 2, 3], { maxTokens: 20 }));
    abort.abort();
    await expect(doomed).rejects.toSatisfy((error) => error instanceof MgrpoError && error.code === "canceled");
    expectSame(subject, await other, alone);
    for (const maxTokens of [6, 0])
      await expect(sampler.sample(request("z", [1], { maxTokens }), AbortSignal.abort())).rejects.toMatchObject(
        CANCELED,
      );
    await sampler.close();
  });

  test("closing cancels open requests and any that come later", async () => {
    const sampler = await openSampler(subject);
    const open = expect(sampler.sample(request("o", [5, 6], { maxTokens: 80 }))).rejects.toMatchObject(CANCELED);
    await Promise.all([open, sampler.close()]);
    for (const maxTokens of [6, 0])
      await expect(sampler.sample(request("l", [1], { maxTokens }))).rejects.toMatchObject(CANCELED);
  });
}
