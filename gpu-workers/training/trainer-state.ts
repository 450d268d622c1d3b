/**
 * @file The engine's trainer of one agent, and which version's bytes it holds. Every step starts from exactly the bytes of the version
 * before. They are loaded again unless the trainer provably holds them: after it saved that version, or after a step that changed nothing.
 */

import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Manifest, Part } from "../../core/contracts/checkpoint.ts";
import { policySettings } from "../../core/contracts/shared-policy.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { PolicyEngine, Trainer } from "../../core/ports.ts";
import { recordOptimizer } from "../../core/training/call-writes.ts";
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
}

export class TrainerState {
  readonly #parts: TrainerParts;
  readonly config: AgentConfig;
  /** The write of what the newest step measured: it holds up nothing but the end, and never rejects. */
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
   * Works with the trainer, which holds exactly the manifest's weights and optimizer state. Starts over once if the trainer could not
   * replay the calls of a dead predecessor.
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
      return attempt();
    }
  }

  /** A version's policy, for the KL term. Version 0 of an adapter that starts fresh is its base. */
  async reference(version: number): Promise<Trainer> {
    const { run, agent, engine, checkpoints } = this.#parts;
    const held = this.#reference;
    if (held?.version === version) return held.trainer;
    const files = await checkpoints.files(await checkpoints.manifest(agent, version), "all");
    // Should loading fail, what the trainer holds belongs to no version.
    this.#reference = held && { ...held, version: NO_VERSION };
    await held?.trainer.load(files);
    const trainer = held?.trainer ?? (await engine.openTrainer(files, engineOptions(this.config, run.config.limits)));
    this.#reference = { version, trainer };
    return trainer;
  }

  /** Commits what the trainer holds, a file at a time: one is hashed while the one before it is stored. */
  async save(): Promise<Files> {
    const { agent, checkpoints } = this.#parts;
    const trainer = this.#trainer;
    if (!trainer) throw new MgrpoError("engine-unsupported", `agent '${agent}' has no open trainer to save`);
    const files: Record<string, Part> = {};
    let storing = Promise.resolve();
    for await (const [name, bytes] of trainer.saveFiles?.() ?? (await trainer.save())) {
      const part = await checkpoints.register(agent, name, bytes);
      files[name] = part;
      await storing;
      storing = checkpoints.store(part, bytes);
      // It is awaited before the next file is stored.
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
    const { run, agent, engine, checkpoints, worker } = this.#parts;
    const files = await checkpoints.files(manifest, "all");
    if (trainer) {
      await trainer.load(files);
      return trainer;
    }
    this.#trainer = await engine.openTrainer(
      files,
      engineOptions(this.config, run.config.limits),
      callJournal(run, agent, worker),
    );
    await this.#recordOptimizer(this.#trainer);
    return this.#trainer;
  }

  async #recordOptimizer({ optimizerProbe }: Trainer): Promise<void> {
    if (!optimizerProbe) return;
    const { run, agent } = this.#parts;
    run.log.info("optimizer", { agent, ...optimizerProbe });
    await run.store.table.update(recordOptimizer(run.name, agent, optimizerProbe));
  }
}

function identityOf(files: Files): string {
  const optimizer = Object.keys(files).filter(isOptimizer).sort();
  return [weightsSha256(files), ...optimizer.map((name) => files[name]?.sha256)].join(" ");
}
