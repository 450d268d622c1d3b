/** @file Trains one agent on its examples, resumably, and writes the best checkpoint: a PEFT adapter, or a whole Hugging Face folder. */
import { existsSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { BasePointer } from "../core/contracts/checkpoint.ts";
import { MgrpoError } from "../core/errors.ts";
import type { CheckpointFiles, EngineOptions, PolicyEngine, Trainer } from "../core/ports.ts";
import { ADAPTER_FILE, readAdapterConfig } from "../engine/checkpoint/adapter.ts";
import { BASE_FILE, isBaseFile, recordedBase, writeBasePointer } from "../engine/checkpoint/base-pointer.ts";
import { sizeOf } from "../engine/checkpoint/files.ts";
import { sha256OfFile, sha256OfTexts } from "../engine/hash.ts";
import { updated, writeCheckpoint } from "../engine/index.ts";
import { batchesOf, passes, type Split } from "./batches.ts";
import type { Example } from "./example.ts";
import { learn, OPTIMIZER, type TrainingPlan } from "./learn.ts";
import { heldOutLossAt, NO_PROGRESS, type TrainingProgress, warningOf } from "./progress.ts";
import { openTrainingState, type TrainingState } from "./state.ts";

export interface AgentTraining {
  readonly agent: string;
  readonly seed: number;
  /** The model, with an adapter if that alone is trained. */
  readonly base: CheckpointFiles;
  /** Names the engine, like `policy` in the config. */
  readonly policy: string;
  readonly engine: PolicyEngine;
  readonly options: EngineOptions;
  readonly examples: Split;
  readonly plan: TrainingPlan;
  /** Minimum tokens of one step, which takes whole examples. */
  readonly batchTokens: number;
  /** The result's folder, and the folder of the training's own state. */
  readonly folder: string;
  readonly stateFolder: string;
  onOpen?(from: TrainingProgress): void;
  onStep?(progress: TrainingProgress): void;
}

export interface AgentTrainingResult {
  readonly progress: TrainingProgress;
  /** True: this call trained. False: the training was already finished. */
  readonly hasTrained: boolean;
}

/** A training's state, with the hashes of its base, which are computed once: a base may be large. */
export interface OpenedState extends TrainingState {
  readonly parts: BaseParts;
}

/** The hash and the size of each file of a base, by its name. */
type BaseParts = BasePointer["files"];

/** Opens the training's state. Refuses a result folder that this training did not write, and a state folder of another training. */
export async function openState(training: AgentTraining): Promise<OpenedState> {
  const parts = await partsOf(training.base);
  const state = await openTrainingState(training.stateFolder, settingsOf(training, parts));
  if (!existsSync(training.folder) || state.saved()?.progress.ended) return { ...state, parts };
  throw new MgrpoError("config-invalid", `${training.folder} exists: give another --to, or delete that folder`);
}

/** @param opened the training's state if it is open already: opening it reads the whole base. */
export async function trainAgent(training: AgentTraining, opened?: OpenedState): Promise<AgentTrainingResult> {
  const state = opened ?? (await openState(training));
  const isWritten = existsSync(training.folder);
  const before = state.saved()?.progress ?? NO_PROGRESS;
  const progress = before.ended ? before : await continueTraining(training, state, before);
  if (!isWritten) await writeResult(training, state, progress);
  return { progress, hasTrained: !before.ended };
}

async function continueTraining(
  training: AgentTraining,
  state: TrainingState,
  from: TrainingProgress,
): Promise<TrainingProgress> {
  const { agent, seed, engine, base, options, plan, examples, batchTokens } = training;
  const trainer: Trainer = await engine.openTrainer(base, options);
  try {
    const newest = await state.saved()?.newest();
    if (newest) await trainer.load(updated(base, newest));
    training.onOpen?.(from);
    const batches = batchesOf(passes(examples.training, plan.tokens, [seed, agent]), batchTokens);
    return await learn(trainer, { batches, heldOut: examples.heldOut }, plan, from, {
      onStep: (progress) => training.onStep?.(progress),
      onCheckpoint: async (progress) => state.save(progress, await trainer.save()),
    });
  } finally {
    await trainer.close();
  }
}

async function partsOf(base: CheckpointFiles): Promise<BaseParts> {
  const parts = [...base].map(
    async ([name, file]) => [name, { sha256: await sha256OfFile(file), bytes: sizeOf(file) }] as const,
  );
  return Object.fromEntries(await Promise.all(parts));
}

/** What must be the same for training to resume: everything that the trained bits depend on. */
function settingsOf({ agent, seed, policy, options, plan, batchTokens, examples }: AgentTraining, parts: BaseParts) {
  const { limits: _, ...engine } = options;
  return {
    agent,
    seed,
    model: Object.fromEntries(Object.entries(parts).map(([name, { sha256 }]) => [name, sha256])),
    policy,
    engine: JSON.parse(JSON.stringify(engine)) as Record<string, string | number>,
    plan: { ...plan },
    batchTokens,
    demonstrations: { training: hashOf(examples.training), heldOut: hashOf(examples.heldOut) },
  };
}

const hashOf = (examples: readonly Example[]) => sha256OfTexts(linesOf(examples));

function* linesOf(examples: readonly Example[]): Generator<string> {
  for (const [i, { tokens, turns }] of examples.entries()) yield `${i > 0 ? "\n" : ""}${tokens.join()} ${turns.join()}`;
}

/** Writes the best checkpoint and a record of its training. The folder appears complete, or not at all. */
async function writeResult(
  { base, folder, plan, batchTokens, seed }: AgentTraining,
  state: OpenedState,
  progress: TrainingProgress,
) {
  const best = await state.saved()?.best();
  if (!best) throw new RangeError("the training ended without a checkpoint");
  const record = {
    seed,
    ...plan,
    batchTokens,
    optimizer: OPTIMIZER,
    steps: progress.losses.length,
    seen: progress.tokens,
    ended: progress.ended,
    best: progress.best,
    firstHeldOutLoss: heldOutLossAt(progress, 0) ?? null,
    heldOutLoss: heldOutLossAt(progress, progress.best) ?? null,
    warning: warningOf(progress) ?? null,
  };
  const partial = `${folder}.partial`;
  await rm(partial, { recursive: true, force: true });
  await writeCheckpoint(partial, resultFiles(base, state.parts, best));
  await writeFile(join(partial, "training.json"), `${JSON.stringify(record, null, 2)}\n`);
  await rename(partial, folder);
}

/** An adapter with its tokenizer and chat template, and a pointer to its base in place of the base; or the whole model. */
function resultFiles(base: CheckpointFiles, parts: BaseParts, best: ReadonlyMap<string, Uint8Array>): CheckpointFiles {
  const files = updated(base, best);
  const config = readAdapterConfig(base);
  if (!config) return files;
  if (!best.has(ADAPTER_FILE)) throw new RangeError(`the trainer of an adapter did not save ${ADAPTER_FILE}`);
  const own = [...files].filter(([name]) => !isBaseFile(name));
  // A recipe's engine may open the base itself. Then `base` has no base files that a pointer could record.
  if (!Object.keys(parts).some(isBaseFile)) return new Map(own);
  return new Map([...own, [BASE_FILE, writeBasePointer(recordedBase(config), parts)]]);
}
