/** @file Sizes that no model can have are refused where a recipe gives them, by their names there. */
import { expect, test } from "vitest";
import { smallModel } from "../../../recipes/small-models/base-model.ts";

const shape = { layers: 2, width: 48, heads: 6, keyValueHeads: 3, ffn: 96 };
const design = { agent: "main", folder: "models/main", demonstrations: () => [], openings: [], tokens: 1000, shape };

test("sizes that fit together are accepted", () => {
  expect(smallModel(design)).toMatchObject({ agent: "main", training: { tokens: 1000 } });
});

test.each([
  // 60 / 8 is not an integer; 18 / 6 is odd.
  [{ shape: { ...shape, width: 60, heads: 8, keyValueHeads: 8 } }, "shape.width: must be a multiple of 2 * heads"],
  [{ shape: { ...shape, width: 18 } }, "shape.width: must be a multiple of 2 * heads"],
  [{ shape: { ...shape, keyValueHeads: 4 } }, "shape.keyValueHeads: must divide heads"],
  [{ shape: { ...shape, layers: 0 } }, "shape.layers: Too small"],
  [{ tokens: 0 }, "tokens: Too small"],
  [{ tokens: Number.NaN }, "tokens: Invalid input"],
  [{ contextTokens: 0 }, "contextTokens: Too small"],
])("%j is refused", (sizes, fault) => {
  expect(() => smallModel({ ...design, ...sizes })).toThrow(
    expect.objectContaining({
      code: "recipe-invalid",
      message: expect.stringContaining(`smallModel() for agent 'main': ${fault}`),
    }),
  );
});
