/**
 * @file One agent's policy, by version. The sampler of version v opens on the verified files of manifest v when v is first needed, and closes
 * when no lease uses it and a newer version has been requested.
 *
 *     preloaded ──manifest v names its weights──> activated: what it sampled counts
 *         └──────manifest v names other weights──> discarded: its conversations are re-sampled with those
 *
 * The trainer's own process preloads v while v is being stored. Only the manifest decides which weights v has.
 */

import type { AgentConfig } from "../core/contracts/agent-config.ts";
import type { Manifest } from "../core/contracts/checkpoint.ts";
import type { CheckpointFiles, EngineLimits, EngineOptions, PolicyEngine, Sampler, Tokenizer } from "../core/ports.ts";
import { openTokenizer } from "../engine/tokenizer/tokenizer.ts";
import type { BusyMeter } from "./busy.ts";
import { weightsSha256 } from "./checkpoints.ts";
import { abortable } from "./limits.ts";
import type { AgentBackend, BackendOptions } from "./rollouts/backend.ts";
import { tokenBackend } from "./rollouts/token-backend.ts";

/** One conversation's use of a version: the version stays open until the lease is released. */
export interface Lease {
  backend(options: BackendOptions): AgentBackend;
  /** Undefined for a model behind an API. */
  readonly inference: Inference | undefined;
  /** Resolves once the version is published: true if its weights are those that sampled here. */
  activated(signal: AbortSignal): Promise<boolean>;
  /** Safe to repeat. */
  release(): void;
}

export interface Policy {
  acquire(version: number): Promise<Lease>;
  /** Opens files that are about to be published as a version: conversations start while they are stored. */
  preload(version: number, files: Files): void;
  /** Opens a published version ahead of its first use. Preloaded weights are activated, or discarded if the manifest names others. */
  activate(version: number): Promise<void>;
  /** The version being opened now, if any. */
  loading(): number | undefined;
  close(): Promise<void>;
}

type Files = Manifest["files"];

/** The engine's part of an agent's config, with the run's time limits on its calls if given. */
export function engineOptions({ engine, limits, optimizer }: AgentConfig, run?: EngineLimits): EngineOptions {
  const serverOptimizer = optimizer.kind === "server" && { serverOptimizer: true };
  const options = { ...engine, ...serverOptimizer, contextTokens: limits.contextTokens };
  return run ? { ...options, limits: { turnSeconds: run.turnSeconds, trainingSeconds: run.trainingSeconds } } : options;
}

/** The files of an agent's versions. */
export interface VersionFiles {
  manifest(agent: string, version: number): Promise<Pick<Manifest, "files">>;
  files(manifest: Pick<Manifest, "agent" | "files">, which: "inference"): Promise<CheckpointFiles>;
}

export function openPolicy(
  agent: string,
  config: AgentConfig,
  engine: PolicyEngine,
  checkpoints: VersionFiles,
  meter: BusyMeter,
  limits?: EngineLimits,
): Policy {
  let tokenizer: { readonly sha256: string | undefined; readonly opened: Tokenizer } | undefined;
  return new EnginePolicy({
    manifestFiles: async (version) => (await checkpoints.manifest(agent, version)).files,
    async open(files) {
      const local = await checkpoints.files({ agent, files }, "inference");
      const sha256 = files["tokenizer.json"]?.sha256;
      if (!tokenizer || tokenizer.sha256 !== sha256) tokenizer = { sha256, opened: openTokenizer(local) };
      const sampler = meter.sampler(await engine.openSampler(local, engineOptions(config, limits)));
      return { sampler, tokenizer: tokenizer.opened };
    },
  });
}

/** A sampler and the tokenizer of the same checkpoint. */
export interface Inference {
  readonly sampler: Sampler;
  readonly tokenizer: Tokenizer;
}

interface InferenceSource {
  manifestFiles(version: number): Promise<Files>;
  open(files: Files): Promise<Inference>;
}

/** Preloaded weights stay open until the manifest activates or discards them. */
class EnginePolicy implements Policy {
  readonly #source: InferenceSource;
  readonly #versions = new Map<number, OpenVersion>();
  /** The most recently requested version. */
  #newest = -1;
  #loading: number | undefined;

  constructor(source: InferenceSource) {
    this.#source = source;
  }

  async acquire(version: number): Promise<Lease> {
    const entry = this.#open(version);
    this.#newest = version;
    entry.users += 1;
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      entry.users -= 1;
      if (this.#versions.get(version) === entry) this.#closeOld();
      else entry.closeIfUnused();
    };
    try {
      const { sampler, tokenizer } = await entry.ready;
      return {
        backend: (options) => tokenBackend(options, tokenizer, sampler),
        inference: { sampler, tokenizer },
        activated: (signal) => abortable(entry.activated, signal),
        release,
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  preload(version: number, files: Files): void {
    this.#discardOtherWeights(version, files);
    this.#newest = version;
    this.#closeOld();
    this.#open(version, files);
  }

  async activate(version: number): Promise<void> {
    if (this.#versions.get(version)?.isPreloaded) {
      this.#discardOtherWeights(version, await this.#source.manifestFiles(version));
    }
    this.#newest = version;
    this.#closeOld();
    const entry = this.#open(version);
    entry.activate();
    await entry.ready;
  }

  loading(): number | undefined {
    return this.#loading;
  }

  async close(): Promise<void> {
    const entries = [...this.#versions.values()];
    this.#versions.clear();
    await Promise.all(entries.map((entry) => entry.close()));
  }

  #open(version: number, preloaded?: Files): OpenVersion {
    const known = this.#versions.get(version);
    if (known) return known;
    const entry = new OpenVersion(this.#load(version, preloaded), preloaded && weightsSha256(preloaded));
    // The callers that await `ready` get the error; the next caller retries.
    entry.ready.catch(() => this.#versions.get(version) === entry && this.#versions.delete(version));
    this.#versions.set(version, entry);
    return entry;
  }

  async #load(version: number, preloaded: Files | undefined): Promise<Inference> {
    this.#loading = version;
    try {
      return await this.#source.open(preloaded ?? (await this.#source.manifestFiles(version)));
    } finally {
      if (this.#loading === version) this.#loading = undefined;
    }
  }

  /** Drops preloaded weights other than these. `activated` of their leases resolves to false. */
  #discardOtherWeights(version: number, files: Files): void {
    const entry = this.#versions.get(version);
    if (!entry?.isPreloaded || entry.hasWeights(files)) return;
    this.#versions.delete(version);
    entry.discard();
  }

  #closeOld(): void {
    for (const [version, entry] of this.#versions) {
      if (entry.users > 0 || version === this.#newest || entry.isPreloaded) continue;
      this.#versions.delete(version);
      entry.closeIfUnused();
    }
  }
}

/** One version's sampler, shared by its leases. */
class OpenVersion {
  readonly ready: Promise<Inference>;
  /** Resolves to true if the version was published with these weights. */
  readonly activated: Promise<boolean>;
  /** Number of leases. */
  users = 0;
  #resolveActivated: (isPublished: boolean) => void = () => {};
  /** SHA-256 of preloaded weights; undefined once they are activated. */
  #preloadedSha256: string | undefined;
  #isClosed = false;

  /** @param preloadedSha256 SHA-256 of weights not yet published; undefined for published ones. */
  constructor(ready: Promise<Inference>, preloadedSha256: string | undefined) {
    this.ready = ready;
    this.#preloadedSha256 = preloadedSha256;
    this.activated = new Promise((resolve) => {
      this.#resolveActivated = resolve;
    });
    if (preloadedSha256 === undefined) this.activate();
  }

  get isPreloaded(): boolean {
    return this.#preloadedSha256 !== undefined;
  }

  hasWeights(files: Files): boolean {
    return this.#preloadedSha256 === weightsSha256(files);
  }

  activate(): void {
    this.#preloadedSha256 = undefined;
    this.#resolveActivated(true);
  }

  /** The manifest names other weights. */
  discard(): void {
    this.#resolveActivated(false);
    this.closeIfUnused();
  }

  closeIfUnused(): void {
    if (this.users > 0 || this.#isClosed) return;
    void this.close();
  }

  /** Closes the sampler once it is open, even if leases use it. An error while opening goes to the callers that await `ready`. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const inference = await this.ready.catch(() => undefined);
    await inference?.sampler.close();
  }
}
