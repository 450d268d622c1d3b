/** @file Stop strings: a sample ends with the first token that completes one, and finding that token takes few decodes. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { beforeStop, untilStop } from "../../../gpu-workers/gateway/stop-strings.ts";
import { tokenizer } from "./harness.ts";

const sampleOf = (tokens: number[]) => ({ tokens, logProbs: tokens.map((token) => -token), stop: "stop" as const });

test("a sample is cut to the shortest prefix whose text contains a stop string", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "\n", "é", "日"), maxLength: 40 });
  const stops = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "\n", "日"), minLength: 1, maxLength: 3 }));
  fc.assert(
    fc.property(text, stops, (generated, texts) => {
      const sample = sampleOf(tokenizer.encodeText(generated));
      const lengths = Array.from({ length: sample.tokens.length }, (_, i) => i + 1);
      const shortest = lengths.find((length) =>
        texts.some((stop) => tokenizer.decode(sample.tokens.slice(0, length)).includes(stop)),
      );
      const length = shortest ?? sample.tokens.length;
      const cut = untilStop(sample, texts, tokenizer);
      expect(cut.tokens).toEqual(sample.tokens.slice(0, length));
      expect(cut.logProbs).toEqual(sample.logProbs.slice(0, length));
      expect(cut.stop).toBe(length < sample.tokens.length ? "length" : "stop");
      expect(beforeStop(tokenizer.decode(cut.tokens), texts).stoppedBy === undefined).toBe(shortest === undefined);
    }),
  );
});

test("a stop string at the end of a long turn costs a few decodes, not one per token", () => {
  let decoded = 0;
  const counting = {
    decode(tokens: readonly number[]) {
      decoded += tokens.length;
      return tokens.map((token) => (token === 1 ? "\nObservation:" : "x")).join("");
    },
  };
  const length = 8192;
  const sample = sampleOf([...Array.from({ length: length - 1 }, () => 0), 1]);
  expect(untilStop(sample, ["\nObservation:"], counting).tokens).toHaveLength(length);
  expect(decoded).toBeLessThan(20 * length);
});
