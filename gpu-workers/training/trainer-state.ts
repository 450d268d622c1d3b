/**
 * @file The engine's trainer of one agent, and which version's bytes it holds. Every step starts from exactly the bytes of the version
 * before. They are loaded again unless the trainer provably holds them: after it saved that version, or after a step that changed nothing.
 */

import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Manifest, Part } from "../../core/contracts/checkpoint.ts";
import { policySettings } from "../../core/contracts/shared-policy.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, SavedFile, Trainer } from "../../core/ports.ts";
import { recordOptimizer } from "../../core/training/call-writes.ts";
import type { BusyMeter } from "../busy.ts";
import { type Checkpoints, isOptimizer, weightsSha256 } from "../checkpoints.ts";
import { engineOptions } from "../engine-options.ts";
import type { RunContext } from "../run-context.ts";
import { callJournal } from "./call-journal.ts";

type Files = Manifest["files"];

const NO_VERSION = -1;

export interface TrainerParts {
  readonly run: RunContext;
  readonly agent: string;
  readonly engine: PolicyEngine;
  readonly checkpoints: Checkpoints;
  readonly worker: string;
  readonly meter: Pick<BusyMeter, "watch">;
}

export class TrainerState {
  readonly #parts: TrainerParts;
  readonly config: AgentConfig;
  /** The steps' telemetry writes, chained. Never rejects, and is awaited only at the end of training. */
  telemetry: Promise<void> = Promise.resolve();
  #trainer: Trainer | undefined;
  #reference: { readonly version: number; readonly trainer: Trainer } | undefined;
  /** Identity of the files that the trainer holds; empty while a step is changing them. */
  #held = "";

  constructor(parts: TrainerParts) {
    this.#parts = parts;
    this.config = policySettings(parts.run.config.agents, parts.agent);
  }

  /**
   * Calls `work` with the trainer, which then holds exactly the manifest's weights and optimizer state. Starts over once if an engine
   * has lost its state (`replay-failed`).
   */
  async use<T extends { trained: boolean }>(manifest: Manifest, work: (trainer: Trainer) => Promise<T>): Promise<T> {
    const attempt = async () => {
      const result = await work(await this.#load(manifest));
      if (!result.trained) this.#held = identityOf(manifest.files);
      return result;
    };
    try {
      return await attempt();
    } catch (error) {
      if (!isMgrpoError(error, "replay-failed")) throw error;
      const { run, agent } = this.#parts;
      run.log.warn("restarting the training step", { agent, error: error.message });
      // The reference's trainer may be the one that lost its state.
      this.#forgetReference();
      return attempt();
    }
  }

  /** A version's policy, for the KL term: only its log-probs are computed. Version 0 of a newly initialized adapter is its base model. */
  async reference(version: number): Promise<Trainer> {
    const { run, agent, engine, checkpoints, meter } = this.#parts;
    const held = this.#reference;
    if (held?.version === version) return held.trainer;
    const files = await checkpoints.files(await checkpoints.manifest(agent, version), "inference");
    // If loading fails, the weights of the reference's trainer belong to no version.
    this.#forgetReference();
    if (held) await meter.watch(() => held.trainer.load(files));
    const open = () => engine.openTrainer(files, engineOptions(this.config, run.config.limits));
    const trainer = held?.trainer ?? (await meter.watch(open));
    this.#reference = { version, trainer };
    return trainer;
  }

  /** Makes the next step load the reference again. */
  #forgetReference(): void {
    this.#reference = this.#reference && { ...this.#reference, version: NO_VERSION };
  }

  /** Commits the trainer's state, one file at a time: each is hashed while the previous one is being stored. */
  async save(): Promise<Files> {
    const { agent, checkpoints, meter } = this.#parts;
    const trainer = this.#trainer;
    if (!trainer) throw new MgrpoError("engine-unsupported", `agent '${agent}' has no open trainer to save`);
    const files: Record<string, Part> = {};
    let storing = Promise.resolve();
    for await (const [name, bytes] of savedFiles(trainer, meter)) {
      const part = await checkpoints.register(agent, name, bytes);
      files[name] = part;
      await storing;
      storing = checkpoints.store(part, bytes);
      // Not an unhandled rejection: it is awaited before the next file is stored.
      storing.catch(() => {});
    }
    await storing;
    this.#held = identityOf(files);
    return files;
  }

  async close(): Promise<void> {
    await Promise.all([this.#trainer?.close(), this.#reference?.trainer.close()]);
  }

  async #load(manifest: Manifest): Promise<Trainer> {
    const trainer = this.#trainer;
    const isHeld = this.#held === identityOf(manifest.files);
    // The step that follows changes the weights: until they are saved, they belong to no version.
    this.#held = "";
    if (trainer && isHeld) return trainer;
    const { run, agent, engine, checkpoints, worker, meter } = this.#parts;
    const files = await checkpoints.files(manifest, "all");
    if (trainer) {
      await meter.watch(() => trainer.load(files));
      return trainer;
    }
    const options = engineOptions(this.config, run.config.limits);
    const opened = await meter.watch(() => engine.openTrainer(files, options, callJournal(run, agent, worker)));
    this.#trainer = opened;
    await this.#recordOptimizer(opened);
    return opened;
  }

  async #recordOptimizer({ optimizerProbe }: Trainer): Promise<void> {
    if (!optimizerProbe) return;
    const { run, agent } = this.#parts;
    run.log.info("optimizer", { agent, ...optimizerProbe });
    await run.store.table.update(recordOptimizer(run.name, agent, optimizerProbe));
  }
}

/** The files that the trainer saves, each as soon as the engine provides it. */
async function* savedFiles(trainer: Trainer, meter: Pick<BusyMeter, "watch">): AsyncGenerator<SavedFile> {
  if (!trainer.saveFiles) return yield* await meter.watch(() => trainer.save());
  const files = trainer.saveFiles()[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await meter.watch(() => files.next());
      if (done) return;
      yield value;
    }
  } finally {
    await files.return?.();
  }
}

function identityOf(files: Files): string {
  const optimizer = Object.keys(files).filter(isOptimizer).sort();
  return [weightsSha256(files), ...optimizer.map((name) => files[name]?.sha256)].join(" ");
}
