/** @file A packed product of quantized weights: what it rounds, and that a row has the same bits in any batch, on one thread or two. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { stream } from "../../core/random.ts";
import { openGraphSession, tensor } from "../../engine/compiled/graph-session.ts";
import { CONTRIB, type Graph } from "../../engine/compiled/onnx/serialize.ts";
import { type Bits, codeBytes, quantizeBlocks } from "../../engine/compiled/quantization/blocks.ts";
import type { QuantizedBase } from "../../engine/compiled/quantization/quantized-base.ts";
import { paddedRows } from "../../engine/compiled/sampling/slot-decoder.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-quantized-products-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MAX_ROWS = 132;
/** Inputs and outputs of a weight: an odd number of blocks, outputs that do not fill the last tile, and enough of both for two threads. */
const SHAPES: [number, number][] = [
  [96, 64],
  [64, 37],
  [192, 576],
];

interface Product {
  readonly inputs: number;
  readonly outputs: number;
  readonly codes: Uint8Array;
  readonly scales: Float32Array;
  readonly base: QuantizedBase;
  readonly x: Float32Array;
}

function product(bits: Bits, inputs: number, outputs: number): Product {
  const { uniform } = stream("quantized product", bits, inputs, outputs);
  const random = (length: number) => Float32Array.from({ length }, () => uniform() - 0.5);
  const { codes, scales } = quantizeBlocks(random(outputs * inputs), bits);
  const path = join(folder, `${bits}-${inputs}-${outputs}`);
  writeFileSync(path, Buffer.concat([codes, new Uint8Array(scales.buffer)]));
  const scalesOffset = codeBytes(outputs * inputs, bits);
  const tensors = [{ name: "weight", outputs, inputs, codesOffset: 0, scalesOffset }];
  const base: QuantizedBase = { bits, path, tensors, zerosOffset: 0 };
  return { inputs, outputs, codes, scales, base, x: random(MAX_ROWS * inputs) };
}

/** Returns a function that computes the first `rows` rows of x times the weight, as a sampler does. */
async function openProduct({ inputs, outputs, base, x }: Product, threads: number) {
  const graph: Graph = {
    name: "product",
    nodes: [
      {
        op: "FusedMatMul",
        domain: CONTRIB,
        inputs: ["x", "weight"],
        outputs: ["y"],
        attributes: { transA: 0, transB: 1 },
        ranks: [2, 2],
      },
    ],
    inputs: [
      { name: "x", type: "float32", dims: ["rows", inputs] },
      { name: "weight", type: "float32", dims: [outputs, inputs] },
    ],
    outputs: [{ name: "y", type: "float32", dims: ["rows", outputs] }],
    constants: [],
  };
  const options = { threads, provider: "cpu", packsWeights: true, quantized: base, multipliesCodes: true } as const;
  const session = await openGraphSession({ graph, shapeInputs: [] }, options);
  return async (rows: number) => {
    const { y } = await session.run({}, { x: tensor(x.subarray(0, rows * inputs), [rows, inputs]) });
    return y as Float32Array;
  };
}

/** In plain loops: a row's blocks of 32 activations are rounded to multiples of their largest magnitude / 127. */
function reference(bits: Bits, { inputs, outputs, codes, scales, x }: Product, row: number): number[] {
  const rounded: number[] = [];
  for (let begin = row * inputs; begin < (row + 1) * inputs; begin += 32) {
    const block = [...x.subarray(begin, begin + 32)];
    const step = Math.max(...block.map(Math.abs)) / 127;
    rounded.push(...block.map((value) => step * Math.round(value / step)));
  }
  const weight = (i: number) => {
    const byte = codes[Math.floor((i * bits) / 8)] as number;
    const code = bits === 8 ? byte - 128 : (i % 2 === 0 ? byte % 16 : byte >> 4) - 8;
    return (scales[Math.floor(i / 32)] as number) * code;
  };
  return Array.from({ length: outputs }, (_, n) => rounded.reduce((sum, a, k) => sum + a * weight(n * inputs + k), 0));
}

describe.each<Bits>([4, 8])("int%i", (bits) => {
  test.each(SHAPES)(
    "%i inputs, %i outputs: the weights are exact, activations are rounded to 8 bits in blocks",
    async (...shape) => {
      const subject = product(bits, ...shape);
      const y = await (await openProduct(subject, 1))(4);
      for (let row = 0; row < 4; row++) {
        reference(bits, subject, row).forEach((value, n) => {
          expect(y[row * subject.outputs + n]).toBeCloseTo(value, 5);
        });
      }
    },
  );

  test.each(SHAPES)(
    "%i inputs, %i outputs: a row has the same bits in batches of 1 to 130 rows, padded as the sampler pads them, on 1 or 2 threads",
    async (...shape) => {
      const subject = product(bits, ...shape);
      const all = await (await openProduct(subject, 1))(MAX_ROWS);
      for (const threads of [1, 2]) {
        const run = await openProduct(subject, threads);
        for (let rows = 1; rows <= 130; rows++) {
          const y = await run(paddedRows(rows));
          expect(Buffer.compare(bytesOf(y), bytesOf(all.subarray(0, y.length)))).toBe(0);
        }
      }
    },
  );
});

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array) => Buffer.from(buffer, byteOffset, byteLength);
