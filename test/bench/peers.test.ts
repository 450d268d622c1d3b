/** @file The comparison with TRL and llama.cpp: its work, its arithmetic, its laps, and our step on a tiny model. The peers themselves are not installed. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { alternate } from "../../bench/peers/alternate.ts";
import type { Lap } from "../../bench/peers/laps.ts";
import { openPeer, type Peer } from "../../bench/peers/peer.ts";
import { openStepper, trainingSequences } from "../../bench/peers/step.ts";
import {
  decodingFigures,
  decodingTable,
  type PeerLaps,
  ratioOf,
  stepFigures,
  stepTable,
} from "../../bench/peers/table.ts";
import { decodingPrompts, makeWork, type PromptTokenizer, rewardOf, SMOKE, Work } from "../../bench/peers/work.ts";
import { nodeArguments } from "../../cli/local/workers.ts";
import type { Sample } from "../../core/ports.ts";
import { TINY, tinyCheckpoint } from "../engine/tiny.ts";

/** Token t is the word of its digits as letters; every third is a punctuation mark, and every fifth word is read as two tokens. */
const words: PromptTokenizer = {
  vocabulary: 1000,
  decode: (tokens) => tokens.map((token) => (token % 3 === 0 ? "!" : ` ${letters(token)}`)).join(""),
  encodeText: (text) =>
    text
      .trim()
      .split(" ")
      .flatMap((word) => (tokenOf(word) % 5 === 0 ? [1, tokenOf(word)] : [tokenOf(word)])),
};
const letters = (token: number) =>
  [...`${token}`.padStart(3, "0")].map((digit) => "abcdefghij"[Number(digit)]).join("");
const tokenOf = (word: string) => Number([...word].map((letter) => "abcdefghij".indexOf(letter)).join(""));

describe("the work", () => {
  const work = makeWork(SMOKE, words);

  test("is the same for the same tokenizer, and what the schema describes", () => {
    expect(makeWork(SMOKE, words)).toEqual(work);
    expect(Work.parse(JSON.parse(JSON.stringify(work)))).toEqual(work);
  });

  test("every prompt is made of single-token words, has the wanted length, and is encoded to the same tokens again", () => {
    expect(work.prompts).toHaveLength(SMOKE.questions);
    for (const { text, tokens } of work.prompts) {
      expect(tokens).toHaveLength(SMOKE.promptTokens);
      expect(words.encodeText(text)).toEqual(tokens);
      expect(tokens.filter((token) => token % 3 === 0 || token % 5 === 0)).toEqual([]);
    }
  });

  test("questions differ from their first token on, so that they share no prefix", () => {
    expect(new Set(work.prompts.map(({ tokens }) => tokens[0])).size).toBe(SMOKE.questions);
  });

  test("a tokenizer without words is refused", () => {
    const marks = { ...words, decode: () => "!" };
    expect(() => makeWork(SMOKE, marks)).toThrow("the model's tokenizer has too few single-token words");
  });

  test("sampling alone has different prompts in every lap, each a part of a question's", () => {
    const laps = [0, 1, 2, 3].map((lap) => decodingPrompts(work, lap));
    expect(new Set(laps.map(([prompt]) => prompt?.join())).size).toBe(laps.length);
    for (const prompts of laps) {
      expect(prompts.map((prompt) => prompt.length)).toEqual(work.prompts.map(() => SMOKE.decoding.promptTokens));
      expect(prompts.every((prompt, i) => work.prompts[i]?.tokens.join().includes(prompt.join()))).toBe(true);
    }
  });
});

const lap = (seconds: number, samplingSeconds = seconds, sampledTokens = 60): Lap => ({
  seconds,
  samplingSeconds,
  sampledTokens,
  entropy: 2,
});
const side = (peakBytes: number, ...laps: Lap[]): PeerLaps => ({ laps, peakBytes });

describe("the figures", () => {
  const ours = side(2e9, lap(10, 4), lap(20, 5), lap(10, 5));
  const trl = side(3e9, lap(60, 12), lap(40, 30), lap(70, 10));

  test("a ratio is the median of the rounds' ratios, not the ratio of the medians", () => {
    // 60/10 = 6, 40/20 = 2, 70/10 = 7. The medians alone would give 60/10 = 6 as well, but sampling tells them apart:
    expect(ratioOf(ours, trl, ({ seconds }) => seconds)).toEqual({ median: 6, least: 2, most: 7 });
    // 12/4 = 3, 30/5 = 6, 10/5 = 2: median 3. The medians are 5 and 12.
    expect(stepFigures(ours, trl).seconds.sampling).toEqual({
      ours: 5,
      trl: 12,
      ratio: { median: 3, least: 2, most: 6 },
    });
  });

  test("the training time of a step is its time without sampling", () => {
    // Ours 6, 15, 5; theirs 48, 10, 60; ratios 8, 2/3, 12.
    expect(stepFigures(ours, trl).seconds.training).toEqual({
      ours: 6,
      trl: 48,
      ratio: { median: 8, least: 10 / 15, most: 12 },
    });
  });

  test("the table of a step has both sides and their ratios", () => {
    expect(stepTable(stepFigures(ours, trl))).toBe(
      [
        "                          mgrpo   TRL          TRL / mgrpo",
        "step, s                    10.0  60.0   6.00 (2.00 - 7.00)",
        "sampling, s                 5.0  12.0   3.00 (2.00 - 6.00)",
        "training, s                 6.0  48.0  8.00 (0.67 - 12.00)",
        "peak memory, MB            2000  3000                 1.50",
        "entropy of a token, nats   2.00  2.00",
      ].join("\n"),
    );
  });

  test("the table of sampling alone has the rates, and the ratio of mgrpo at each precision to each file of llama.cpp", () => {
    // 60 tokens in 1, 2 and 3 s: 60, 30 and 20 a second.
    const fast = side(1e9, lap(1), lap(2), lap(3));
    const slow = side(5e8, lap(2), lap(2), lap(9));
    const figures = decodingFigures({ fp32: fast, int4: slow }, { Q4_0: slow });
    expect(figures.ours["fp32"]?.ratios["Q4_0"]).toEqual({ median: 2, least: 1, most: 3 });
    expect(decodingTable(figures)).toBe(
      [
        "                tokens/s  peak memory, MB    x llama.cpp Q4_0",
        "mgrpo fp32          30.0             1000  2.00 (1.00 - 3.00)",
        "mgrpo int4          30.0              500  1.00 (1.00 - 1.00)",
        "llama.cpp Q4_0      30.0              500",
      ].join("\n"),
    );
  });
});

describe("alternation", () => {
  const recorded = (names: string[], tokens = 60): Record<string, Peer> => {
    const peer = (name: string): Peer => ({
      lap: async () => lap(order.push(name), 1, tokens),
      peakBytes: () => 1,
      close: async () => {},
    });
    return Object.fromEntries(names.map((name) => [name, peer(name)]));
  };
  const order: string[] = [];

  test("every round reverses the order of the one before, and the first only warms up", async () => {
    order.length = 0;
    const sides = await alternate(recorded(["a", "b"]), 2, 60);
    expect(order.join(" ")).toBe("a b b a a b");
    // The seconds of a lap are its position in that order.
    expect(sides["a"]?.laps.map(({ seconds }) => seconds)).toEqual([4, 5]);
    expect(sides["b"]?.laps.map(({ seconds }) => seconds)).toEqual([3, 6]);
  });

  test("a side that samples another number of tokens is refused", async () => {
    await expect(alternate(recorded(["a"], 59), 1, 60)).rejects.toThrow("a sampled 59 tokens instead of 60");
  });

  test("a process answers a line with a line, its peak memory can be read, and it ends when its stdin closes", async () => {
    const answer = JSON.stringify(lap(3, 2));
    const peer = openPeer("p", process.execPath, ["-e", `process.stdin.on("data", () => console.log('${answer}'))`]);
    let closing = 0;
    try {
      expect(await peer.lap()).toEqual(lap(3, 2));
      expect(await peer.lap()).toEqual(lap(3, 2));
      if (process.platform === "linux") expect(peer.peakBytes()).toBeGreaterThan(1e6);
    } finally {
      closing = performance.now();
      await peer.close();
    }
    // One that does not end is killed after 20 s.
    expect(performance.now() - closing).toBeLessThan(20_000);
  });

  test("a process that ends before it answers is reported with its last output", async () => {
    const peer = openPeer("TRL", process.execPath, ["-e", "console.error('no model'); process.exit(3)"]);
    await expect(peer.lap()).rejects.toThrow(/^TRL ended with exit code 3 before it answered:\nno model$/);
    await peer.close();
  });
});

test("a process that cannot be started is reported by its name, even if it is asked later", async () => {
  const peer = openPeer("TRL", join(tmpdir(), "mgrpo-no-python"), []);
  await new Promise((resolve) => setTimeout(resolve, 100));
  await expect(peer.lap()).rejects.toThrow(/^TRL cannot be started: spawn .* E/);
  expect(peer.peakBytes()).toBe(0);
  await peer.close();
});

/** In place of node-llama-cpp: later sequences are slower, and a sequence that is asked for a token while another has fewer throws. */
const LLAMA = `
const counts = [];
const evaluate = (own) => async function* () {
  counts[own] = 0;
  for (;;) {
    if (Math.min(...counts) < counts[own]) throw new Error("sequence " + own + " runs ahead");
    await new Promise((resolve) => setTimeout(resolve, 2 * own));
    counts[own]++;
    yield 1;
  }
};
const getSequence = () => {
  const own = counts.push(0) - 1;
  return { clearHistory: async () => { counts[own] = 0; }, evaluate: evaluate(own) };
};
export const getLlama = async () => ({ loadModel: async () => ({ createContext: async () => ({ getSequence }) }) });
`;

test("llama.cpp's sequences take every step together", async () => {
  const folder = mkdtempSync(join(tmpdir(), "mgrpo-peers-"));
  const work = { ...makeWork(SMOKE, words), decoding: { rounds: 1, promptTokens: 8, newTokens: 5 } };
  const module = join(folder, "node_modules/node-llama-cpp/dist");
  mkdirSync(module, { recursive: true });
  writeFileSync(join(module, "index.js"), LLAMA);
  writeFileSync(join(module, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "work.json"), JSON.stringify(work));
  const args = [...nodeArguments("bench/peers/llama"), join(folder, "work.json"), "Q4_0.gguf", folder];
  const peer = openPeer("llama.cpp", process.execPath, args);
  try {
    for (const _ of [0, 1]) expect((await peer.lap()).sampledTokens).toBe(SMOKE.questions * 5);
  } finally {
    await peer.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

describe("our step", () => {
  const tokens = (seed: number) =>
    Array.from({ length: SMOKE.promptTokens }, (_, i) => (7 * i + seed) % TINY.vocabulary);
  const prompts = [1, 2].map((seed) => ({ text: "", tokens: tokens(seed) }));
  const work: Work = { ...makeWork(SMOKE, words), prompts, threads: 1 };

  test("samples every rollout to its full length, and then trains, step after step", async () => {
    const stepper = await openStepper(tinyCheckpoint(), work);
    try {
      for (const number of [0, 1]) {
        const { seconds, samplingSeconds, sampledTokens, entropy } = await stepper.step(number);
        expect(sampledTokens).toBe(SMOKE.questions * SMOKE.rollouts * SMOKE.newTokens);
        expect(seconds).toBeGreaterThan(samplingSeconds);
        expect(entropy).toBeGreaterThan(0);
      }
    } finally {
      await stepper.close();
    }
  });

  test("a question's batch has the vectors worked out by hand", () => {
    const samples: Sample[] = [
      { tokens: [2, 4], logProbs: [-1, -2], stop: "length" },
      { tokens: [1, 3], logProbs: [-3, -4], stop: "length" },
    ];
    // Rewards 1 and 0: mean 0.5, standard deviation 0.5; four tokens of weight 1/4.
    expect(samples.map((sample) => rewardOf(sample.tokens))).toEqual([1, 0]);
    const [first, second] = trainingSequences([9, 9, 9], samples);
    expect(first?.tokens).toEqual([9, 9, 9, 2, 4]);
    expect(first?.weights_T).toEqual(Float32Array.of(0, 0, 0, 0.25, 0.25));
    expect(second?.behaviorLogProbs_T).toEqual(Float32Array.of(0, 0, 0, -3, -4));
    const advantage = 0.5 / (0.5 + 1e-4);
    expect(first?.advantages_T).toEqual(Float32Array.of(0, 0, 0, advantage, advantage));
    expect(second?.advantages_T).toEqual(Float32Array.of(0, 0, 0, -advantage, -advantage));
  });
});
