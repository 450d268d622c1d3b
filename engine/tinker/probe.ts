/**
 * @file Measures how a server behaves, on a throwaway model. Documentation is not enough: a server that averages, or ignores a setting,
 * responds like any other.
 *
 *     gradient   of one sequence, of two copies, and of one with masked tokens appended   -> sums or means, over tokens and over sequences
 *     rate       a learning rate of 0 must stop the weights from moving                   -> refused if it does not
 *     Adam       an epsilon of 1e6 stops the weights from moving, or it is ignored        -> `followsEpsilon`
 *     momentum   a step with zero gradient and beta1 0 moves nothing, or beta1 is ignored -> `followsBeta1`
 *     clipping   a norm of 1e-12 stops the weights from moving, or it is ignored          -> `clips`
 *     sign       a step with none of these must make the sequence more likely             -> refused if it does not
 *     stops      a sample must end with the token it stopped at                           -> refused if it does not
 *     numbers    a pass repeated under its number returns the first result, or does not   -> `remembersCalls`
 */
import type { OptimizerProbe } from "../../core/contracts/server-optimizer.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { TinkerClient, TinkerModel } from "./client/client.ts";
import type { AdamParams, Datum, OptimizerResult, SamplingParams } from "./client/messages.ts";
import { gradientDatum, scoringDatum, withLeadingZero } from "./data.ts";

export interface ServerBehavior {
  /** How a sequence's loss combines the terms of its tokens. */
  readonly overTokens: "sum" | "mean";
  /** How a step's loss combines the losses of its sequences. */
  readonly overSequences: "sum" | "mean";
  /** Whether `grad_clip_norm` has an effect. Also false where the server ignores epsilon, since the effect cannot be measured then. */
  readonly clips: boolean;
  /** Whether a call repeated under the same number returns the first result, so that a dead process's step can be resumed. */
  readonly remembersCalls: boolean;
  readonly optimizer: Omit<OptimizerProbe, "server">;
}

/**
 * Learning rate of the steps that may move the weights; Adam's first step moves every weight by about this. It is a usual one for LoRA: far larger
 * ones lower the log-probs of a model with many weights.
 */
const LEARNING_RATE = 1e-4;
const NO_OP_STEP = {
  learning_rate: 0,
  beta1: 0,
  beta2: 0,
  eps: 1e-8,
  weight_decay: 0,
  grad_clip_norm: 0,
} satisfies AdamParams;
const GREEDY: SamplingParams = { max_tokens: 4, temperature: 0, top_k: -1, top_p: 1, seed: 0 };
/** Tolerance of measured ratios, each of which has two possible values, a factor of 2 apart. */
const TOLERANCE = 0.2;
/** A move smaller than this fraction of an unrestricted step's counts as none. */
const NO_MOVE = 0.3;

/** Names of the gradient-norm metric on the various servers. */
const NORM_METRICS = ["skyrl.ai/grad_norm", "unclipped_grad_l2:mean"];

/** The norm of the gradient before clipping, as the step reports it. */
export function gradientNormOf({ metrics }: OptimizerResult): number {
  const norm = NORM_METRICS.map((name) => metrics?.[name]).find((value) => value !== undefined);
  if (norm !== undefined) return norm;
  throw new MgrpoError(
    "engine-unsupported",
    `the Tinker server reports no gradient norm (${NORM_METRICS.join(" or ")}) among its metrics (${Object.keys(metrics ?? {}).join(", ") || "none"}): its steps cannot be checked`,
  );
}

/** `model` is fresh and belongs to the probe. It is trained on its own greedy continuation of a short prompt. */
export async function probeServer(
  client: TinkerClient,
  model: TinkerModel,
  vocabulary: number,
): Promise<ServerBehavior> {
  const prompt = [1, 2, 3].map((token) => token % vocabulary);
  const saved = await model.saveForSampler();
  const sample = async (stop?: number[]) => {
    const params = { ...GREEDY, ...(stop && { stop }) };
    const [sequence] = (await client.sample({ model_path: saved }, prompt, params)).sequences;
    return sequence?.tokens ?? [];
  };
  const sampled = await sample();
  const [likeliest = 0] = sampled;
  if ((await sample([likeliest])).join() !== String(likeliest)) {
    refuse("a sample does not end with the token it stops at, whose log-prob is trained on");
  }

  const tokens = [...prompt, ...sampled];
  const longer = [...tokens, ...tokens.slice(1)];
  const logProbs = async () =>
    withLeadingZero((await model.forward([[scoringDatum(longer)]], "cross_entropy"))[0] ?? []);
  const first = await logProbs();
  const gradient = (length: number) => new Float32Array(length).fill(-1, prompt.length, tokens.length);
  const plain = () => gradientDatum(tokens, first.subarray(0, tokens.length), gradient(tokens.length), 1);
  const padded = () => gradientDatum(longer, first, gradient(longer.length), 1);
  const step = async (data: Datum[], params: Partial<AdamParams> = {}) => {
    await model.forwardBackward([data], "importance_sampling");
    return gradientNormOf(await model.optimizerStep({ ...NO_OP_STEP, ...params }));
  };
  const plainNorm = await step([plain()]);
  const overSequences = nearest("sending a sequence twice", (await step([plain(), plain()])) / plainNorm, 2);
  const overTokens =
    nearest("appending masked tokens", (await step([padded()])) / plainNorm, 0.5) === "same" ? "sum" : "mean";

  const sampledPart = (row: Float32Array) => row.subarray(prompt.length, tokens.length);
  const zero = () => gradientDatum(tokens, first.subarray(0, tokens.length), new Float32Array(tokens.length), 1);
  const moves = await movesOf(
    [
      () => Promise.resolve(),
      () => step([plain()], { learning_rate: LEARNING_RATE, eps: 1e6 }),
      () => step([plain()], { learning_rate: LEARNING_RATE, grad_clip_norm: 1e-12 }),
      () => step([plain()], { learning_rate: LEARNING_RATE }),
      () => step([zero()], { learning_rate: LEARNING_RATE }),
    ],
    sampledPart(first),
    async () => sampledPart(await logProbs()),
  );
  return {
    overTokens,
    overSequences: overSequences === "same" ? "mean" : "sum",
    ...optimizerOf(moves),
    remembersCalls: await model.remembersCalls([scoringDatum(longer)]),
  };
}

/** How far each action moves the log-probs. */
async function movesOf(
  actions: readonly (() => Promise<unknown>)[],
  first: Float32Array,
  logProbs: () => Promise<Float32Array>,
): Promise<number[]> {
  const moves: number[] = [];
  let before = first;
  for (const act of actions) {
    await act();
    const after = await logProbs();
    moves.push(meanMove(before, after));
    before = after;
  }
  return moves;
}

function optimizerOf(moves: readonly number[]): Pick<ServerBehavior, "clips" | "optimizer"> {
  const [byNoRate = 0, byEpsilon = 0, byClipping = 0, free = 0, byMomentum = 0] = moves;
  const isStill = (move: number) => Math.abs(move) < NO_MOVE * Math.abs(free);
  const followsEpsilon = isStill(byEpsilon);
  // The first step that moves the fresh adapter: the one that tests epsilon, where epsilon is ignored.
  const rise = followsEpsilon ? free : byEpsilon;
  if (!(rise > 0)) refuse("a step along the gradient does not make its tokens more likely");
  if (!isStill(byNoRate)) refuse("it uses its own learning rate and ignores the one it is sent");
  return {
    clips: followsEpsilon && isStill(byClipping),
    optimizer: { followsEpsilon, followsBeta1: isStill(byMomentum), rise, learningRate: LEARNING_RATE },
  };
}

/** The mean change, over the positions that both have. */
function meanMove(before: ArrayLike<number>, after: ArrayLike<number>): number {
  const count = Math.min(before.length, after.length);
  let sum = 0;
  for (let i = 0; i < count; i++) sum += (after[i] as number) - (before[i] as number);
  return count === 0 ? 0 : sum / count;
}

/** Whether a measured ratio is 1 or `other`; refuses the server if it is neither. */
function nearest(what: string, ratio: number, other: number): "same" | "other" {
  if (Math.abs(ratio - 1) < TOLERANCE) return "same";
  if (Math.abs(ratio - other) < TOLERANCE * other) return "other";
  return refuse(`${what} changes the gradient by a factor of ${ratio.toFixed(3)}, which neither a sum nor a mean does`);
}

function refuse(fault: string): never {
  throw new MgrpoError("engine-unsupported", `the Tinker server cannot be used for training: ${fault}`);
}
