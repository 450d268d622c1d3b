/**
 * @file One agent's policy, by version. A sampler is opened on the files of manifest v, hashes checked, when v is first asked for;
 * it is closed when nobody uses it and a newer version has been asked for.
 *
 *     foreseen ──manifest v names its weights──> confirmed: what was said counts
 *         └──────it names others───────────────> refused: it is said anew, with those
 *
 * A trainer's own process foresees v while it is stored. Which weights v has, the manifest decides alone.
 */

import type { AgentConfig } from "../core/contracts/agent-config.ts";
import type { Manifest } from "../core/contracts/checkpoint.ts";
import type { EngineOptions, PolicyEngine, Sampler, Tokenizer } from "../core/ports.ts";
import { openTokenizer } from "../engine/tokenizer/tokenizer.ts";
import type { BusyMeter } from "./busy.ts";
import { type Checkpoints, weightsSha256 } from "./checkpoints.ts";
import { unlessAborted } from "./limits.ts";
import type { Part, Speaker } from "./rollouts/backend.ts";
import { tokenSpeaker } from "./rollouts/token-backend.ts";

export interface Hold {
  /** The version in one conversation. */
  speaker(part: Part): Speaker;
  /** Once the version is published: whether it has the weights that spoke. */
  confirmed(signal: AbortSignal): Promise<boolean>;
  /** Ends this use of the version. */
  release(): void;
}

export interface Policy {
  acquire(version: number): Promise<Hold>;
  /** Opens what is about to be published as a version: while it is stored, conversations begin. */
  foresee(version: number, files: Files): void;
  /** Opens a version that is published, ahead of its first use. What was foreseen is confirmed, or dropped. */
  prepare(version: number): Promise<void>;
  /** The version being opened now, if any. */
  loading(): number | undefined;
  close(): Promise<void>;
}

type Files = Manifest["files"];

interface Opened {
  readonly ready: Promise<{ sampler: Sampler; tokenizer: Tokenizer }>;
  /** What weights that are only foreseen are known by. */
  foreseen: string | undefined;
  /** Whether the version is published with its weights; pending until it is published. */
  readonly confirmed: Promise<boolean>;
  confirm(isPublished: boolean): void;
  users: number;
  isClosed: boolean;
}

export function openPolicy(
  agent: string,
  config: AgentConfig,
  engine: PolicyEngine,
  checkpoints: Checkpoints,
  meter: BusyMeter,
): Policy {
  const versions = new Map<number, Opened>();
  let newest = -1;
  let loading: number | undefined;
  let tokenizer: { sha256: string | undefined; tokenizer: Tokenizer } | undefined;

  async function open(version: number, foreseen?: Files) {
    loading = version;
    try {
      const named = foreseen ?? (await checkpoints.manifest(agent, version)).files;
      const files = await checkpoints.files({ agent, files: named }, "inference");
      const hash = named["tokenizer.json"]?.sha256;
      if (!tokenizer || tokenizer.sha256 !== hash) tokenizer = { sha256: hash, tokenizer: openTokenizer(files) };
      const sampler = await engine.openSampler(files, engineOptions(config));
      return { sampler: meter.sampler(sampler), tokenizer: tokenizer.tokenizer };
    } finally {
      if (loading === version) loading = undefined;
    }
  }

  function opened(version: number, files?: Files): Opened {
    const known = versions.get(version);
    if (known) return known;
    let confirm: Opened["confirm"] = () => {};
    const confirmed = new Promise<boolean>((resolve) => {
      confirm = resolve;
    });
    const foreseen = files && weightsSha256(files);
    if (!files) confirm(true);
    const entry: Opened = { ready: open(version, files), foreseen, confirmed, confirm, users: 0, isClosed: false };
    entry.ready.catch(() => versions.get(version) === entry && versions.delete(version));
    versions.set(version, entry);
    return entry;
  }

  /** Whoever speaks with foreseen weights other than these does so in vain; the next one opens the version anew. */
  function refuseOthers(version: number, files: Files) {
    const entry = versions.get(version);
    if (entry?.foreseen === undefined || entry.foreseen === weightsSha256(files)) return;
    versions.delete(version);
    entry.confirm(false);
    closeIfUnused(entry);
  }

  function closeIfUnused(entry: Opened) {
    if (entry.users > 0 || entry.isClosed) return;
    entry.isClosed = true;
    // A version that failed to open was reported to whoever asked for it.
    entry.ready.then(
      ({ sampler }) => sampler.close(),
      () => {},
    );
  }

  /** Closes what is older and used by nobody; what is foreseen stays until it is known what becomes of it. */
  function closeOld() {
    for (const [version, entry] of versions) {
      if (entry.users > 0 || version === newest || entry.foreseen !== undefined) continue;
      versions.delete(version);
      closeIfUnused(entry);
    }
  }

  return {
    async acquire(version) {
      const entry = opened(version);
      newest = version;
      entry.users += 1;
      let held = true;
      const release = () => {
        if (!held) return;
        held = false;
        entry.users -= 1;
        if (versions.get(version) === entry) closeOld();
        else closeIfUnused(entry);
      };
      try {
        const { sampler, tokenizer } = await entry.ready;
        const confirmed = (signal: AbortSignal) => unlessAborted(entry.confirmed, signal);
        return { speaker: (part) => tokenSpeaker(part, tokenizer, sampler), confirmed, release };
      } catch (error) {
        release();
        throw error;
      }
    },
    foresee(version, files) {
      refuseOthers(version, files);
      newest = version;
      closeOld();
      opened(version, files);
    },
    async prepare(version) {
      if (versions.get(version)?.foreseen !== undefined)
        refuseOthers(version, (await checkpoints.manifest(agent, version)).files);
      newest = version;
      closeOld();
      const entry = opened(version);
      entry.foreseen = undefined;
      entry.confirm(true);
      await entry.ready;
    },
    loading: () => loading,
    async close() {
      const open = [...versions.values()];
      versions.clear();
      for (const entry of open) entry.isClosed = true;
      const settled = await Promise.allSettled(open.map(({ ready }) => ready));
      await Promise.all(
        settled.map((result) => (result.status === "fulfilled" ? result.value.sampler.close() : undefined)),
      );
    },
  };
}

/** The engine's share of an agent's config. */
export function engineOptions({ engine, limits }: AgentConfig): EngineOptions {
  return { ...engine, contextTokens: limits.contextTokens };
}
