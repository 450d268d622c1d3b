/**
 * @file M-GRPO from top to bottom: a planner delegates to a searcher, two models with separate tokenizers, and both learn. The
 * loop of examples/loop.ts, plus what a team requires: delegation, the sub-agent's reward (eq 5), trajectory alignment (section 4.1). Two
 * parts that M-GRPO does not depend on come from elsewhere: core/conversation has the turns of a conversation, recipes/atlas the questions,
 * tools and rewards.
 *
 *     npm run example:team [steps]
 */
import type { Conversation } from "../core/contracts/conversation.ts";
import type { Question } from "../core/contracts/question.ts";
import { advanceConversation, openConversation, type PlannedCall } from "../core/conversation/reducer.ts";
import { presentResponse } from "../core/conversation/special-tokens.ts";
import { openToolBudget } from "../core/conversation/tool-budget.ts";
import { openToolbox, type Toolbox } from "../core/conversation/toolbox.ts";
import { groupAdvantages } from "../core/mgrpo/advantage.ts";
import { align } from "../core/mgrpo/alignment.ts";
import { tokenWeights } from "../core/mgrpo/batch.ts";
import { mainReward, subReward } from "../core/mgrpo/reward.ts";
import { scatter } from "../core/mgrpo/tokens.ts";
import { stream } from "../core/random.ts";
import {
  type ChatLayout,
  type CheckpointFiles,
  openChatLayout,
  openSampler,
  openTokenizer,
  openTrainer,
  readCheckpoint,
  type Sampler,
  type Tokenizer,
  type Trainer,
  type TrainingSequence,
  updated,
} from "../engine/index.ts";
import { questionSet } from "../recipes/atlas/questions/questions.ts";
import { rewards as atlas } from "../recipes/atlas/rewards.ts";
import { tools } from "../recipes/atlas/tools.ts";
import { runIfMain } from "./command-line.ts";

const MODELS = "recipes/atlas/models";
const SEED = 1;
const QUESTIONS = 16;
const K = 8;
/** Aligned searcher trajectories per rollout that calls the searcher (eq 11). */
const D = 4;
/** The sampling temperature. The trainer computes log-probs at the same one, so that they are comparable with the sampler's. */
const TEMPERATURE = 1;
const ENGINE = { threads: 1, slots: 64 };
const OPTIMIZER = { learningRate: 8e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradientNorm: 1 };
const ADVANTAGE = { advantageScale: "std", epsilon: 1e-6 } as const;
const LIMITS = {
  main: { turns: 5, turnTokens: 48, contextTokens: 256, calls: 2, responseCharacters: 200 },
  searcher: { turns: 4, turnTokens: 40, contextTokens: 320, calls: 1, responseCharacters: 800 },
};

interface Agent {
  readonly name: keyof typeof LIMITS;
  readonly toolbox: Toolbox;
  readonly tokenizer: Tokenizer;
  readonly layout: ChatLayout;
  readonly trainer: Trainer;
  checkpoint: CheckpointFiles;
}

/** One agent's conversation. Its policy sampled the tokens at `positions_A`: none if the prompt fills the context. */
interface Trajectory {
  readonly conversation: Conversation;
  readonly tokens: readonly number[];
  readonly positions_A: readonly number[];
  /** Behavior log-probs. */
  readonly logProbs_A: readonly number[];
}

/** One rollout of the whole team: the planner's trajectory, and the searcher's, one per delegation. */
interface Rollout {
  readonly main: Trajectory;
  readonly subs: readonly Trajectory[];
}

/** A trajectory with its advantage and its share of its question's loss. */
type ScoredTrajectory = { group: number; trajectory: Trajectory; advantage: number; weight: number };

const training = questionSet(SEED).train.filter(({ level }) => level < 3);

async function openAgent(name: Agent["name"], toolNames: string[], delegates: string[]): Promise<Agent> {
  const checkpoint = await readCheckpoint(`${MODELS}/${name}`);
  const tokenizer = openTokenizer(checkpoint);
  const toolbox = openToolbox(name, { tools: toolNames, delegates }, tools);
  const layout = openChatLayout(tokenizer, { agent: name, system: "", tools: toolbox.schemas });
  const trainer = await openTrainer(checkpoint, { ...ENGINE, contextTokens: LIMITS[name].contextTokens });
  return { name, toolbox, tokenizer, layout, trainer, checkpoint };
}

/** Trains both agents for `steps` steps; returns the planner's mean reward of each step, and the trained models. */
export async function train(steps: number, print: (line: string) => void = console.log) {
  const [main, searcher] = await Promise.all([
    openAgent("main", ["calculate"], ["searcher"]),
    openAgent("searcher", ["search", "visit"], []),
  ]);
  const rewards: number[] = [];
  for (let step = 0; step < steps; step++) {
    const started = performance.now();
    const drawn = stream(SEED, "questions", step).choose(training.length, QUESTIONS);
    const questions = drawn.flatMap((i) => training[i] ?? []);
    const groups = await sampleTeam(main, searcher, questions, step);

    const scored = groups.map((rollouts, q) => scoreGroup(questions[q] as Question, rollouts, step, q));
    const [mains, subs] = [scored.flatMap((one) => one.mains), scored.flatMap((one) => one.subs)];
    // Each agent learns only from its own trajectories: no gradient flows between agents.
    await Promise.all([learn(main, mains), learn(searcher, subs)]);

    const reward = mean(scored.flatMap(({ rewardsMain }) => rewardsMain));
    const searcherReward = mean(scored.flatMap(({ rewardsSub }) => rewardsSub));
    const calls = groups.flat().reduce((sum, { subs }) => sum + subs.length, 0) / (QUESTIONS * K);
    const seconds = (performance.now() - started) / 1000;
    rewards.push(reward);
    print(
      `step ${String(step + 1).padStart(3)}  main ${reward.toFixed(3)}  searcher ${searcherReward.toFixed(3)}` +
        `  calls ${calls.toFixed(2)}  ${seconds.toFixed(1)} s`,
    );
  }
  await Promise.all([main.trainer.close(), searcher.trainer.close()]);
  return { rewards, checkpoints: { main: main.checkpoint, searcher: searcher.checkpoint } };
}

/** K rollouts of every question, all at once, with the current weights of both agents. */
async function sampleTeam(main: Agent, searcher: Agent, questions: readonly Question[], step: number) {
  const [mainSampler, searcherSampler] = await Promise.all([
    openSampler(main.checkpoint, { ...ENGINE, contextTokens: LIMITS.main.contextTokens }),
    openSampler(searcher.checkpoint, { ...ENGINE, contextTokens: LIMITS.searcher.contextTokens }),
  ]);
  const rollOut = async (question: Question, name: string): Promise<Rollout> => {
    const subs: Trajectory[] = [];
    const trajectory = await converse(main, mainSampler, question, question.prompt, name, async ({ task, call }) => {
      const sub = await converse(searcher, searcherSampler, question, task, `${name}/${call}`, refuse);
      subs[call] = sub;
      return sub.conversation.answer ?? "no report";
    });
    return { main: trajectory, subs };
  };
  const groups = await Promise.all(
    questions.map((question, q) =>
      Promise.all(Array.from({ length: K }, (_, k) => rollOut(question, `${step}/${q}/${k}`))),
    ),
  );
  await Promise.all([mainSampler.close(), searcherSampler.close()]);
  return groups;
}

type DelegateCall = Extract<PlannedCall, { kind: "delegate" }>;
type Callee = (delegation: DelegateCall) => Promise<string>;
type Invoker = Pick<Agent, "name" | "toolbox">;
const refuse: Callee = async () => "this agent has no sub-agents";

/** One agent's conversation. The reducer decides each next command; this function carries it out. */
async function converse(
  agent: Agent,
  sampler: Sampler,
  question: Question,
  prompt: string,
  sequence: string,
  delegate: Callee,
): Promise<Trajectory> {
  const { name, toolbox, tokenizer, layout } = agent;
  const rules = { limits: LIMITS[name], toolbox };
  const tokens = layout.prompt(prompt);
  const [positions_A, logProbs_A, earlier]: [number[], number[], number[]] = [[], [], []];
  let { state, command } = advanceConversation(
    openConversation(prompt),
    { kind: "opened", promptTokens: tokens.length },
    rules,
  );
  while (command.kind !== "finish") {
    if (command.kind === "sample") {
      const sample = await sampler.sample({
        sequence,
        tokens: [...tokens],
        maxTokens: command.maxTokens,
        stop: [[tokenizer.endOfTurn]],
        sampling: { temperature: TEMPERATURE, topP: 1, topK: 0 },
        stream: [SEED, "sample", sequence, command.turn],
      });
      positions_A.push(...sample.tokens.map((_, i) => tokens.length + i));
      logProbs_A.push(...sample.logProbs);
      tokens.push(...sample.tokens);
      const text = tokenizer.decode(sample.stop === "stop" ? sample.tokens.slice(0, -1) : sample.tokens);
      ({ state, command } = advanceConversation(
        state,
        { kind: "sampled", text, tokens: sample.tokens.length, stop: sample.stop },
        rules,
      ));
      continue;
    }
    const responses = await Promise.all(command.calls.map((call) => respond(call, agent, question, delegate)));
    const shown = layout.responses(
      responses.map(({ text }) => text),
      earlier,
    );
    earlier.push(responses.length);
    ({ state, command } = advanceConversation(state, { kind: "responded", responses, tokens: shown.length }, rules));
    if (command.kind === "sample") tokens.push(...shown);
  }
  sampler.release(sequence);
  return { conversation: command.conversation, tokens, positions_A, logProbs_A };
}

export async function respond(call: PlannedCall, { name, toolbox }: Invoker, question: Question, delegate: Callee) {
  const { responseCharacters } = LIMITS[name];
  const present = (text: string) => presentResponse(text, responseCharacters);
  if (call.kind === "delegate") return { name: "delegate", text: present(await delegate(call)) };
  const anyRollout = { run: "team", phase: "train", step: 0, group: 0, rollout: 0 };
  const signal = AbortSignal.timeout(10_000);
  const context = { question, address: anyRollout, budget: openToolBudget(undefined), responseCharacters, signal };
  // Cast: the reducer has checked the arguments against the tool's schema; a map of tools cannot express their type.
  const text = (await toolbox.tools.get(call.name)?.run(call.arguments as never, context)) ?? "";
  return { name: call.name, text: present(text) };
}

/** Rewards (eq 4 and 5), alignment of the searcher's trajectories, advantages per agent (eq 9-10 and 12-13). */
function scoreGroup(question: Question, rollouts: readonly Rollout[], step: number, group: number) {
  const correct_K = rollouts.map(({ main }) => Number(atlas.correct(question, main.conversation)));
  const rewardsMain = rollouts.map(({ main }, k) =>
    mainReward(isWellFormed(main), correct_K[k] ?? 0, { format: 0.1, correct: 0.9 }),
  );
  const advantages_K = groupAdvantages(
    rewardsMain,
    rewardsMain.map(() => 1 / K),
    ADVANTAGE,
  ).advantages_N;
  const mains = rollouts.map(
    ({ main }, k): ScoredTrajectory => ({ group, trajectory: main, advantage: advantages_K[k] ?? 0, weight: 1 / K }),
  );

  // Rollout k calls the searcher d_k times; alignment gives each rollout that calls it the weight of d trajectories.
  const alignment = align(
    rollouts.map(({ subs }) => subs.length),
    { mode: "resample", d: D },
    (k) => stream(SEED, "alignment", step, group, k),
  );
  const pooled = rollouts.flatMap(({ subs }, k) =>
    subs.map((trajectory, i) => ({
      trajectory,
      weight: alignment.weights[k]?.[i] ?? 0,
      reward: subReward(
        isWellFormed(trajectory),
        correct_K[k] ?? 0,
        Number(atlas.expert(question, "searcher", trajectory.conversation)),
        { format: 0.1, correct: 0.4, expert: 0.5 },
      ),
    })),
  );
  const kept = pooled.filter(({ weight }) => weight > 0);
  const rewardsSub = kept.map(({ reward }) => reward);
  const advantages_N =
    kept.length > 0
      ? groupAdvantages(
          rewardsSub,
          kept.map(({ weight }) => weight),
          ADVANTAGE,
        ).advantages_N
      : [];
  const subs = kept.map(
    ({ trajectory, weight }, n): ScoredTrajectory => ({ group, trajectory, weight, advantage: advantages_N[n] ?? 0 }),
  );
  return { mains, subs, rewardsMain, rewardsSub };
}

const isWellFormed = ({ conversation }: Trajectory) => conversation.stop === "answered";

/** One optimizer step of one agent on the clipped objective (eq 14-19): every question has the same weight. No step if no token was sampled. */
export async function learn(agent: Agent, entries: readonly ScoredTrajectory[]): Promise<void> {
  const sampled = entries.filter(({ trajectory }) => trajectory.positions_A.length > 0);
  if (sampled.length === 0) return;
  const shares = sampled.map(({ group, weight, trajectory }) => ({
    group,
    weight,
    actionTokens: trajectory.positions_A.length,
  }));
  const weights = tokenWeights(shares, { aggregation: "trajectory-mean", constantTokens: 1 });
  const batch = sampled.map(({ trajectory: { tokens, positions_A, logProbs_A }, advantage }, i): TrainingSequence => {
    const spread = (values_A: readonly number[]) => scatter(values_A, positions_A, tokens.length);
    return {
      tokens,
      weights_T: spread(positions_A.map(() => weights[i] ?? 0)),
      advantages_T: spread(positions_A.map(() => advantage)),
      behaviorLogProbs_T: spread(logProbs_A),
    };
  });
  await agent.trainer.forwardBackward(batch, { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 }, TEMPERATURE);
  await agent.trainer.optimizerStep(OPTIMIZER, 1 / new Set(entries.map(({ group }) => group)).size);
  agent.checkpoint = updated(agent.checkpoint, await agent.trainer.save());
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

await runIfMain(import.meta.url, train);
