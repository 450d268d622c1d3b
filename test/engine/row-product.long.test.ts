/** @file A sequence's samples have the same bits alone and together, with more adapters and more threads than in row-product.test.ts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, test } from "vitest";
import { optionsOfLane } from "../../engine/compiled/lanes.ts";
import { expectSameBits, large, MODEL, ON_FOUR } from "./same-bits.ts";
import { LORA, mapped, tinyAdapter, tinyCheckpoint, WIDE } from "./tiny.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-row-product-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const WIDE_HEADS = { ...WIDE, tied: false, width: 512, headWidth: 128 };

test("with more threads than heads, turns after long contexts have the same bits alone and together", () => {
  const files = new Map([...tinyCheckpoint(WIDE_HEADS, 1, 2048), large(WIDE_HEADS)]);
  return expectSameBits(files, [{ ...ON_FOUR, threads: 2 * WIDE_HEADS.heads, contextTokens: 1400 }]);
});

test.each([16, 160])(
  "with packed weights and an adapter of rank %i, samples have the same bits alone and together, on four, two or one threads",
  (rank) => {
    const files = mapped(tinyAdapter(MODEL, { ...LORA, rank, alpha: 0.05 }), join(folder, `rank${rank}`));
    const packed = { ...ON_FOUR, packsWeights: true };
    return expectSameBits(files, [packed, optionsOfLane(packed, 2), optionsOfLane(packed, 4)]);
  },
);
