/** @file The file of a step's log-probs: what is written for a trajectory is read back by its name. */
import { expect, test } from "vitest";
import { readTrainedTokens, trainedTokensFile } from "../../engine/trained-tokens.ts";

test("log-probs and clipped tokens are read back by the name of their trajectory; any other name gives undefined", () => {
  const file = trainedTokensFile(
    new Map([
      ["0/1#0", { logProbs_A: Float32Array.of(-0.5, -2, -0.25), clipped: [0, 2] }],
      ["an-invocation#0", { logProbs_A: Float32Array.of(-1), clipped: [] }],
    ]),
  );
  expect(readTrainedTokens(file, "0/1#0", "f")).toEqual({
    logProbs_A: Float32Array.of(-0.5, -2, -0.25),
    clipped: [0, 2],
  });
  expect(readTrainedTokens(file, "an-invocation#0", "f")).toEqual({ logProbs_A: Float32Array.of(-1), clipped: [] });
  expect(readTrainedTokens(file, "0/2#0", "f")).toBeUndefined();
});
