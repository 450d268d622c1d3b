/**
 * @file engine.train.trees: how many times faster the gradient of one step is in prefix trees than with a row per sequence. engine.train.kept:
 * how many times faster it is in trees with activations kept than with each layer recomputed. Each round times all
 * three forms. engine.train.check: the duration of a trainer's first gradient, which includes the check of its trees,
 * relative to that of a later one. engine.train.open: processor time in which the process's first trainer opens, computes
 * the gradient of one sequence and closes, which includes tracing the graphs, opening their sessions and reading the weights.
 * The model has SmolLM2-135M's shape and an adapter of rank 16. The 8 rollouts of a question share a prompt of 300 tokens, of which all
 * questions share 150; each has two turns of 24 tokens with its own tool response between them.
 */
import { LoraConfig } from "../core/contracts/lora.ts";
import type { CheckpointFiles, EngineOptions, TrainingSequence } from "../core/ports.ts";
import { stream } from "../core/random.ts";
import { median } from "../core/statistics.ts";
import { compiledEngine } from "../engine/compiled/engine.ts";
import { planMicroBatches, rowCount } from "../engine/compiled/training/batch-plan.ts";
import { cpuSecondsOf, print, secondsOf } from "./measurement.ts";
import { writeRandomModel } from "./qwen3/model.ts";
import { withFreshAdapter } from "./qwen3/work.ts";
import { SMOLLM2_135M } from "./smollm2.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const OPTIONS: EngineOptions = { threads: 2, slots: 8, contextTokens: 512, microBatchTokens: 4096 };
const LORA = LoraConfig.parse({});
const QUESTIONS = 8;
const ROLLOUTS = 8;
const SYSTEM_TOKENS = 150;
const PROMPT_TOKENS = 300;
const TURN_TOKENS = 24;
const RESPONSE_TOKENS = 40;
/** Each times all three forms. A ratio of two forms is the median over the rounds. */
const ROUNDS = 3;
const LOSS = { kind: "clipped-token", clipLow: 0.2, clipHigh: 0.28 } as const;

const folder = temporaryFolder("bench-trees");
const base = writeRandomModel(folder, SMOLLM2_135M, OPTIONS.contextTokens, "F32");
await compare(withFreshAdapter(base, SMOLLM2_135M, LORA));

async function compare(files: CheckpointFiles): Promise<void> {
  const batch = Array.from({ length: QUESTIONS }, (_, question) => rollouts(question)).flat();
  const open = (more: Partial<EngineOptions>) => compiledEngine.openTrainer(files, { ...OPTIONS, ...more });
  const opening = await cpuSecondsOf(async () => {
    const trainer = await open({ gradientCheckpointing: "off" });
    await trainer.forwardBackward(batch.slice(0, 1), LOSS, 1);
    await trainer.close();
  });
  const trainers = {
    trees: await open({ gradientCheckpointing: "off" }),
    apart: await open({ gradientCheckpointing: "off", prefixTrees: false }),
    recomputed: await open({ gradientCheckpointing: "on" }),
  };
  type Form = keyof typeof trainers;
  const forms = Object.keys(trainers) as Form[];
  const seconds = (form: Form, of: readonly TrainingSequence[]) =>
    secondsOf(() => trainers[form].forwardBackward(of, LOSS, 1));
  // Traces the graphs, and checks the trees of every shape.
  for (const form of forms) await seconds(form, batch);
  const rounds: Record<Form, number>[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const [trees, apart, recomputed] = [
      await seconds("trees", batch),
      await seconds("apart", batch),
      await seconds("recomputed", batch),
    ];
    rounds.push({ trees, apart, recomputed });
  }
  // Its graphs are traced already, so only the check of the trees adds time.
  const another = await open({ gradientCheckpointing: "off" });
  const first = await secondsOf(() => another.forwardBackward(batch, LOSS, 1));
  for (const trainer of [...Object.values(trainers), another]) await trainer.close();
  const tokens = { trees: computedTokens(batch, true), apart: computedTokens(batch, false) };
  const config = {
    model: "SmolLM2-135M's shape",
    rank: LORA.rank,
    threads: OPTIONS.threads,
    dtype: "fp32",
    sequences: batch.length,
    tokens,
    seconds: rounds,
  };
  print("engine.train.open", opening, "s of processor time", config);
  const ratioTo = (form: Form) => median(rounds.map((round) => round[form] / round.trees));
  print("engine.train.trees", ratioTo("apart"), "apart / trees", config);
  print("engine.train.kept", ratioTo("recomputed"), "recomputed / kept", config);
  print("engine.train.check", first / median(rounds.map(({ trees }) => trees)), "first / later", config);
}

function computedTokens(batch: readonly TrainingSequence[], prefixTrees: boolean): number {
  const sequences = batch.map(({ tokens }) => tokens);
  const plan = planMicroBatches(sequences, () => 0, SMOLLM2_135M, { ...OPTIONS, prefixTrees });
  return plan.reduce((sum, micro) => sum + rowCount(micro) * micro.tokens, 0);
}

function rollouts(question: number): TrainingSequence[] {
  const prompt = [
    ...randomTokens("system", SYSTEM_TOKENS),
    ...randomTokens(`question ${question}`, PROMPT_TOKENS - SYSTEM_TOKENS),
  ];
  return Array.from({ length: ROLLOUTS }, (_, k) => {
    const name = `${question}/${k}`;
    const turns = randomTokens(name, 2 * TURN_TOKENS);
    const response = randomTokens(`response ${name}`, RESPONSE_TOKENS);
    const tokens = [...prompt, ...turns.slice(0, TURN_TOKENS), ...response, ...turns.slice(TURN_TOKENS)];
    const isAction = (t: number) =>
      (t >= PROMPT_TOKENS && t < PROMPT_TOKENS + TURN_TOKENS) || t >= tokens.length - TURN_TOKENS;
    return {
      tokens,
      weights_T: Float32Array.from(tokens, (_x, t) => (isAction(t) ? 1 / ROLLOUTS : 0)),
      advantages_T: new Float32Array(tokens.length).fill(k % 2 ? 1 : -1),
      behaviorLogProbs_T: new Float32Array(tokens.length).fill(-Math.log(SMOLLM2_135M.vocabulary)),
    };
  });
}

function randomTokens(name: string, count: number): number[] {
  const { integer } = stream("bench", "trees", name);
  return Array.from({ length: count }, () => integer(SMOLLM2_135M.vocabulary));
}
