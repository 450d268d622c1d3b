/**
 * @file One agent's policy, by version. The sampler of version v opens on the verified files of manifest v when v is first requested. The most
 * recently requested versions stay open, one per step in flight; an older one closes when no lease uses it.
 */
import type { AgentConfig } from "../../core/contracts/agent-config.ts";
import type { Manifest } from "../../core/contracts/checkpoint.ts";
import type { CheckpointFiles, EngineLimits, PolicyEngine, Sampler, Tokenizer } from "../../core/ports.ts";
import { openTokenizer } from "../../engine/tokenizer/tokenizer.ts";
import type { BusyMeter } from "../busy.ts";
import { engineOptions } from "../engine-options.ts";
import type { Log } from "../log.ts";
import type { AgentBackend, BackendOptions } from "./backend.ts";
import { tokenBackend } from "./token-backend.ts";

/** One conversation's use of a version: the version stays open until the lease is released or the policy is closed. */
export interface Lease {
  backend(options: BackendOptions): AgentBackend;
  /** Undefined for a model behind an API. */
  readonly inference: Inference | undefined;
  /** Safe to repeat. */
  release(): void;
}

export interface PolicyVersions {
  acquire(version: number): Promise<Lease>;
  /** Opens a version ahead of its first use. */
  open(version: number): Promise<void>;
  /** Whether another version is being opened, and `version` is neither open nor being opened. */
  isLoadingOther(version: number): boolean;
  /** Closes every version. One that is requested later opens again. */
  close(): Promise<void>;
}

type Files = Manifest["files"];

/** The files of an agent's versions. */
export interface VersionFiles {
  manifest(agent: string, version: number): Promise<Pick<Manifest, "files">>;
  files(manifest: Pick<Manifest, "agent" | "files">, which: "inference"): Promise<CheckpointFiles>;
}

export interface PolicyOptions {
  readonly limits?: EngineLimits;
  /** How many versions stay open: one per step in flight. */
  readonly versions?: number;
  readonly log?: Pick<Log, "warn">;
}

export function openPolicyVersions(
  agent: string,
  config: AgentConfig,
  engine: PolicyEngine,
  checkpoints: VersionFiles,
  meter: BusyMeter,
  { limits, versions = 1, log }: PolicyOptions = {},
): PolicyVersions {
  let tokenizer: { readonly sha256: string | undefined; readonly opened: Tokenizer } | undefined;
  const source: InferenceSource = {
    manifestFiles: async (version) => (await checkpoints.manifest(agent, version)).files,
    async open(files) {
      const local = await checkpoints.files({ agent, files }, "inference");
      const sha256 = files["tokenizer.json"]?.sha256;
      if (!tokenizer || tokenizer.sha256 !== sha256) tokenizer = { sha256, opened: openTokenizer(local) };
      const sampler = await meter.watch(() => engine.openSampler(local, engineOptions(config, limits)));
      return { sampler: meter.sampler(sampler), tokenizer: tokenizer.opened };
    },
  };
  const onCloseFailed = (error: unknown) =>
    log?.warn("an unused version could not be closed", { agent, error: String(error) });
  return new EnginePolicy(source, versions, onCloseFailed);
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

class EnginePolicy implements PolicyVersions {
  readonly #source: InferenceSource;
  readonly #kept: number;
  readonly #onCloseFailed: (error: unknown) => void;
  /** The most recently requested last. */
  readonly #versions = new Map<number, OpenVersion>();
  #loading = 0;

  constructor(source: InferenceSource, kept: number, onCloseFailed: (error: unknown) => void) {
    this.#source = source;
    this.#kept = kept;
    this.#onCloseFailed = onCloseFailed;
  }

  async acquire(version: number): Promise<Lease> {
    const entry = this.#request(version);
    entry.users += 1;
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      entry.users -= 1;
      this.#closeOld(this.#kept);
    };
    try {
      const { sampler, tokenizer } = await entry.ready;
      return {
        backend: (options) => tokenBackend(options, tokenizer, sampler),
        inference: { sampler, tokenizer },
        release,
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  async open(version: number): Promise<void> {
    await this.#request(version).ready;
  }

  isLoadingOther(version: number): boolean {
    return this.#loading > 0 && !this.#versions.has(version);
  }

  async close(): Promise<void> {
    const entries = [...this.#versions.values()];
    this.#versions.clear();
    await Promise.all(entries.map(closeSampler));
  }

  #request(version: number): OpenVersion {
    const known = this.#versions.get(version);
    this.#versions.delete(version);
    // Unused versions are asked to close before another is asked to open: the engine may not have memory for both.
    this.#closeOld(this.#kept - 1);
    const entry = known ?? { ready: this.#load(version), users: 0 };
    this.#versions.set(version, entry);
    // The callers that await `ready` get the error; the next caller retries.
    entry.ready.catch(() => this.#versions.get(version) === entry && this.#versions.delete(version));
    return entry;
  }

  async #load(version: number): Promise<Inference> {
    this.#loading += 1;
    try {
      return await this.#source.open(await this.#source.manifestFiles(version));
    } finally {
      this.#loading -= 1;
    }
  }

  /** Closes each version that no lease uses and that is not among the `kept` most recently requested. */
  #closeOld(kept: number): void {
    const old = [...this.#versions].slice(0, Math.max(0, this.#versions.size - kept));
    for (const [version, entry] of old.filter(([, { users }]) => users === 0)) {
      this.#versions.delete(version);
      closeSampler(entry).catch(this.#onCloseFailed);
    }
  }
}

/** One version's sampler, shared by its leases. */
interface OpenVersion {
  readonly ready: Promise<Inference>;
  /** Number of leases. */
  users: number;
}

/** Closes the sampler once it is open, even if leases use it. An error while opening goes to the callers that await `ready`. */
async function closeSampler({ ready }: OpenVersion): Promise<void> {
  const inference = await ready.catch(() => undefined);
  await inference?.sampler.close();
}
