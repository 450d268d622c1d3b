/**
 * @file Checks prefix trees the first time that trees of a shape are computed: log-probs and gradient are compared with those of the same
 * sequences computed separately, one per row, before the pass runs. A shape is the combination of the kind of pass, whether a micro-batch has one
 * row or several, and the rows' length rounded up to a power of two. Once a shape has passed, later micro-batches of that shape are not checked.
 * The check does not change the gradient.
 *
 * It computes at most two trees of the micro-batch, and then their sequences separately, into a second gradient, which all shapes of a pass
 * share. It costs at most one computation of the micro-batch with trees and one without; where gradients cancel, it also computes these sequences
 * one by one.
 */
import { MgrpoError } from "../../../core/errors.ts";
import type { EngineOptions, TrainingSequence } from "../../../core/ports.ts";
import type { PrefixTree } from "../../model/prefix-tree.ts";
import { negate, norm } from "./arrays.ts";
import type { MicroBatch } from "./batch-plan.ts";

/**
 * Largest allowed difference of a log-prob, and norm of the gradient's difference relative to the gradient's. Rounding leaves 1e-4 and 1e-5
 * in fp32, a few hundredths in bf16. TF32, emulated on the CPU, leaves 1e-3 in small models. A wrong mask or position changes log-probs by
 * tenths and the gradient by a hundredth or more; an error in the backward pass alone changes only the gradient.
 */
const TOLERANCE = { fp32: 2e-3, tf32: 1e-2, bf16: 0.2 };

/** CUDA computes fp32 products in TF32. */
const toleranceOf = ({ precision = "fp32", provider }: EngineOptions): number =>
  TOLERANCE[precision === "fp32" && provider === "cuda" ? "tf32" : precision];

/** A kind of pass, as the check runs it. */
export interface CheckedPass {
  /** Passes of the same kind run the same graphs. */
  readonly kind: string;
  /** Elements of the gradient; 0 if none is computed. */
  readonly gradientLength: number;
  /** Whether token t's log-prob is computed, and neither its weight nor its advantage makes its part of the gradient 0. */
  contributes(sequence: TrainingSequence, t: number): boolean;
  plan(batch: readonly TrainingSequence[], options: EngineOptions): readonly MicroBatch[];
  /**
   * Returns the log-probs, and adds to the gradient. The gradient must depend continuously on the log-probs, since rounding changes them
   * slightly between trees and separate sequences.
   */
  run(
    batch: readonly TrainingSequence[],
    plan: readonly MicroBatch[],
    gradient: Float32Array,
  ): Promise<readonly Float32Array[]>;
}

/** Some trees of a micro-batch as a batch of their own, with the same padding. */
interface CheckedSample {
  readonly batch: readonly TrainingSequence[];
  readonly micro: MicroBatch;
}

/** Checks the plan's trees of each shape that is not in `checked`, and adds the shapes that pass. */
export async function checkTrees(
  pass: CheckedPass,
  batch: readonly TrainingSequence[],
  plan: readonly MicroBatch[],
  checked: Set<string>,
  options: EngineOptions,
): Promise<void> {
  let gradient: Float32Array | undefined;
  for (const micro of plan) {
    const shape = [pass.kind, rowsOf(micro).length > 1, Math.ceil(Math.log2(micro.tokens))].join();
    if (checked.has(shape)) continue;
    const sample = sampleOf(micro, batch, pass);
    if (!sample) continue;
    gradient ??= new Float32Array(pass.gradientLength);
    if (await confirmTrees(sample, pass, options, gradient)) checked.add(shape);
  }
}

interface Row {
  readonly tree: PrefixTree;
  /** Indices into the batch. */
  readonly members: readonly number[];
}

/** No rows if the micro-batch has no trees. */
function rowsOf({ trees = [], members }: MicroBatch): Row[] {
  let end = 0;
  return trees.map((tree) => {
    const begin = end;
    end += tree.nodes.length;
    return { tree, members: members.slice(begin, end) };
  });
}

/** A tree whose branches could be confused, and a second tree, if any, since rows could be confused too. Undefined: no tree has such branches. */
function sampleOf(micro: MicroBatch, batch: readonly TrainingSequence[], pass: CheckedPass): CheckedSample | undefined {
  const rows = rowsOf(micro);
  const first = rows.find((row) => isBranched(row, batch, pass));
  if (!first) return undefined;
  const chosen = [first, ...rows.filter((row) => row !== first).slice(0, 1)];
  const members = chosen.flatMap((row) => row.members);
  return {
    batch: members.map((member) => batch[member] as TrainingSequence),
    micro: { members: members.map((_, i) => i), tokens: micro.tokens, trees: chosen.map(({ tree }) => tree) },
  };
}

/**
 * Whether a token that contributes is predicted at a node that comes after another branch. A single path has no such node: equal sequences,
 * a sequence that is a prefix of another, sequences that differ only in their last token.
 */
function isBranched({ tree, members }: Row, batch: readonly TrainingSequence[], { contributes }: CheckedPass): boolean {
  // Node t of a path is number t in its tree, unless another branch comes before it. It predicts token t + 1.
  return members.some((member, i) =>
    tree.nodes[i]?.some((node, t) => node > t && contributes(batch[member] as TrainingSequence, t + 1)),
  );
}

/** False if the separate sequences have no finite gradient to compare with. Throws `engine-unsupported` if the trees differ. */
async function confirmTrees(
  { batch, micro }: CheckedSample,
  pass: CheckedPass,
  options: EngineOptions,
  gradient: Float32Array,
): Promise<boolean> {
  const tolerance = toleranceOf(options);
  const separateOptions = { ...options, prefixTrees: false };
  gradient.fill(0);
  const inTrees = await pass.run(batch, [micro], gradient);
  const size = norm(gradient);
  negate(gradient);
  const separate = await pass.run(batch, pass.plan(batch, separateOptions), gradient);
  compareLogProbs(inTrees, separate, batch, pass, tolerance);
  const difference = norm(gradient);
  if (difference <= tolerance * size) return true;
  // Gradients may cancel and leave only rounding: then the scale is the norm that their sum would have if they were
  // orthogonal.
  const scale = await scaleOf(batch, pass, separateOptions, gradient);
  if (!Number.isFinite(scale)) return false;
  if (difference <= tolerance * scale) return true;
  throw unequal(
    `the gradient of ${batch.length} sequences in trees differs from that without trees by ${(difference / scale).toPrecision(2)} of the root sum square of the sequences' gradient norms`,
  );
}

/** Square root of the sum of the squared norms of each sequence's gradient. */
async function scaleOf(
  batch: readonly TrainingSequence[],
  pass: CheckedPass,
  options: EngineOptions,
  gradient: Float32Array,
): Promise<number> {
  let squares = 0;
  for (const sequence of batch) {
    gradient.fill(0);
    await pass.run([sequence], pass.plan([sequence], options), gradient);
    squares += norm(gradient) ** 2;
  }
  return Math.sqrt(squares);
}

function compareLogProbs(
  inTrees: readonly Float32Array[],
  separate: readonly Float32Array[],
  batch: readonly TrainingSequence[],
  { contributes }: CheckedPass,
  tolerance: number,
): void {
  for (const [i, sequence] of batch.entries()) {
    for (let t = 1; t < sequence.tokens.length; t++) {
      const [found, alone] = [inTrees[i]?.[t] ?? Number.NaN, separate[i]?.[t] ?? Number.NaN];
      if (!contributes(sequence, t) || Object.is(found, alone) || Math.abs(found - alone) <= tolerance) continue;
      throw unequal(`the log-prob of token ${t} is ${found} in its tree but ${alone} in the sequence alone`);
    }
  }
}

const unequal = (fault: string) =>
  new MgrpoError("engine-unsupported", `prefix trees: ${fault}: set engine.prefixTrees to false and report the model`);
