/**
 * @file GRPO from top to bottom: one model with three tools learns to answer questions about the countries of the world. There is no store, no
 * worker and no config. Each step draws questions, samples K rollouts of each, computes rewards and advantages, takes one optimizer step and
 * prints a line. Change anything you like. The equations come from core/mgrpo; the engine samples and trains. Two parts that GRPO does not
 * depend on come from elsewhere, too: core/conversation parses turns and opens the toolbox, recipes/atlas has the questions and the tools.
 *
 *     npm run example:loop [steps]
 */
import type { Question } from "../core/contracts/question.ts";
import type { RolloutAddress } from "../core/contracts/rollout.ts";
import { parseTurn } from "../core/conversation/parse-turn.ts";
import { openToolBudget } from "../core/conversation/tool-budget.ts";
import { openToolbox } from "../core/conversation/toolbox.ts";
import { groupAdvantages } from "../core/mgrpo/advantage.ts";
import { tokenWeights } from "../core/mgrpo/batch.ts";
import { mainReward } from "../core/mgrpo/reward.ts";
import { scatter } from "../core/mgrpo/tokens.ts";
import { stream } from "../core/random.ts";
import {
  openChatLayout,
  openSampler,
  openTokenizer,
  openTrainer,
  readCheckpoint,
  type Sampler,
  type TrainingSequence,
  updated,
} from "../engine/index.ts";
import { questionSet } from "../recipes/atlas/questions/questions.ts";
import { tools } from "../recipes/atlas/tools.ts";
import { runIfMain } from "./command-line.ts";

const MODEL = "recipes/atlas/models/single";
const SEED = 1;
const QUESTIONS = 16;
const K = 8;
const TURNS = 8;
const TURN_TOKENS = 40;
const CONTEXT_TOKENS = 640;
/** The sampling temperature. The trainer computes log-probs at the same one, so that they are comparable with the sampler's. */
const TEMPERATURE = 1;
const ENGINE = { threads: 2, slots: 64, contextTokens: CONTEXT_TOKENS };
const OPTIMIZER = { learningRate: 8e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1 };

/** One attempt at a question: T tokens, of which the policy sampled those at `positions_A`. */
interface Rollout {
  readonly group: number;
  readonly tokens: readonly number[];
  readonly positions_A: readonly number[];
  /** Behavior log-probs: under the policy that sampled the tokens. */
  readonly logProbs_A: readonly number[];
  /** Undefined: malformed, or out of turns or tokens. */
  readonly answer: string | undefined;
}

const toolbox = openToolbox("single", { tools: ["search", "visit", "calculate"], delegates: [] }, tools);
const training = questionSet(SEED).train.filter(({ level }) => level < 3);
const base = await readCheckpoint(MODEL);
const tokenizer = openTokenizer(base);
const layout = openChatLayout(tokenizer, { agent: "single", system: "", tools: toolbox.schemas });

/** Trains for `steps` steps; returns the mean reward of each step, and the trained model. */
export async function train(steps: number, print: (line: string) => void = console.log) {
  let checkpoint = base;
  const trainer = await openTrainer(checkpoint, ENGINE);
  const rewards: number[] = [];
  for (let step = 0; step < steps; step++) {
    const started = performance.now();
    const questions = drawQuestions(step);
    const sampler = await openSampler(checkpoint, ENGINE);
    const groups = await Promise.all(
      questions.map((question, group) =>
        Promise.all(Array.from({ length: K }, (_, k) => rollOut(sampler, question, step, group, k))),
      ),
    );
    await sampler.close();

    const rewards_QK = groups.map((group, q) => group.map((rollout) => rewardOf(rollout, questions[q])));
    const advantages_QK = rewards_QK.map((rewards_K) => advantagesOf(rewards_K));
    const batch = batchOf(groups.flat(), advantages_QK.flat());
    await trainer.forwardBackward(batch, { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 }, TEMPERATURE);
    const { gradientNorm } = await trainer.optimizerStep(OPTIMIZER, 1 / QUESTIONS);
    checkpoint = updated(checkpoint, await trainer.save());

    const reward = mean(rewards_QK.flat());
    const zeroVariance = advantages_QK.filter((advantages_K) => advantages_K.every((a) => a === 0)).length;
    const seconds = (performance.now() - started) / 1000;
    rewards.push(reward);
    print(
      `step ${String(step + 1).padStart(3)}  reward ${reward.toFixed(3)}  correct ${percent(rewards_QK.flat(), (r) => r > 0.5)}` +
        `  zero-variance ${zeroVariance}/${QUESTIONS}  gradient ${gradientNorm.toFixed(2)}  ${seconds.toFixed(1)} s`,
    );
  }
  await trainer.close();
  return { rewards, checkpoint };
}

function drawQuestions(step: number): Question[] {
  const chosen = stream(SEED, "questions", step).choose(training.length, QUESTIONS);
  return chosen.flatMap((i) => training[i] ?? []);
}

/** One conversation: sample a turn, run the tools it calls, append their responses, until it answers. */
async function rollOut(sampler: Sampler, question: Question, step: number, group: number, k: number): Promise<Rollout> {
  const sequence = `${step}/${group}/${k}`;
  const address = { run: "loop", phase: "train", step, group, rollout: k };
  const tokens = layout.prompt(question.prompt);
  const positions_A: number[] = [];
  const logProbs_A: number[] = [];
  const responses: number[] = [];
  let answer: string | undefined;
  for (let turn = 0; turn < TURNS && tokens.length < CONTEXT_TOKENS; turn++) {
    const sample = await sampler.sample({
      sequence,
      tokens: [...tokens],
      maxTokens: Math.min(TURN_TOKENS, CONTEXT_TOKENS - tokens.length),
      stop: [[tokenizer.endOfTurn]],
      sampling: { temperature: TEMPERATURE, topP: 1, topK: 0 },
      stream: [SEED, "sample", step, group, k, turn],
    });
    positions_A.push(...sample.tokens.map((_, i) => tokens.length + i));
    logProbs_A.push(...sample.logProbs);
    tokens.push(...sample.tokens);
    if (sample.stop === "length") break;
    const reply = parseTurn(tokenizer.decode(sample.tokens.slice(0, -1)), toolbox, 1);
    if (reply.kind === "answer") answer = reply.answer;
    if (reply.kind !== "calls") break;
    const texts = await Promise.all(reply.calls.map((call) => runTool(call.name, call.arguments, question, address)));
    tokens.push(...layout.responses(texts, responses));
    responses.push(texts.length);
  }
  sampler.release(sequence);
  return { group, tokens: tokens.slice(0, CONTEXT_TOKENS), positions_A, logProbs_A, answer };
}

async function runTool(name: string, args: unknown, question: Question, address: RolloutAddress): Promise<string> {
  const tool = toolbox.tools.get(name);
  const signal = AbortSignal.timeout(10_000);
  const context = { question, address, budget: openToolBudget(undefined), responseCharacters: 800, signal };
  // Cast: parseTurn has checked the arguments against the tool's schema; a map of tools cannot express their type.
  return (await tool?.run(args as never, context)) ?? "";
}

/** Eq 4: 0.1 for the format, 0.9 for the correct answer; 0 if there is no answer. */
function rewardOf({ answer }: Rollout, question: Question | undefined): number {
  const isCorrect = answer?.trim().toLowerCase() === question?.answer.toLowerCase();
  return mainReward(answer !== undefined, isCorrect ? 1 : 0, { format: 0.1, correct: 0.9 });
}

/** Eq 9-10: how far each reward is above the mean of its group, in standard deviations. */
function advantagesOf(rewards_K: readonly number[]): number[] {
  const weights_K = rewards_K.map(() => 1 / K);
  return groupAdvantages(rewards_K, weights_K, { advantageScale: "std", epsilon: 1e-6 }).advantages_N;
}

/** Questions weigh the same; so do the rollouts of a question, and the sampled tokens of a rollout. */
function batchOf(rollouts: readonly Rollout[], advantages: readonly number[]): TrainingSequence[] {
  const entries = rollouts.map(({ group, positions_A }) => ({
    group,
    weight: 1 / K,
    actionTokens: positions_A.length,
  }));
  const weights = tokenWeights(entries, { aggregation: "trajectory-mean", constantTokens: 1 });
  return rollouts.map(({ tokens, positions_A, logProbs_A }, i) => {
    const spread = (values_A: readonly number[]) => scatter(values_A, positions_A, tokens.length);
    return {
      tokens,
      weights_T: spread(positions_A.map(() => weights[i] ?? 0)),
      advantages_T: spread(positions_A.map(() => advantages[i] ?? 0)),
      behaviorLogProbs_T: spread(logProbs_A),
    };
  });
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function percent(values: readonly number[], holds: (value: number) => boolean): string {
  return `${Math.round((100 * values.filter(holds).length) / values.length)}%`.padStart(4);
}

await runIfMain(import.meta.url, train);
