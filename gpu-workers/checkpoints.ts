/**
 * @file Manifests and their parts. Parts are verified against their hashes when they are read; `verifyTeam` verifies manifests. For each
 * agent, the parts of the manifest that was last read or published stay in memory, except Adam's state, the shards that this process has
 * just trained, and parts outside the store. So a process that has just trained a version, or already samples from it, does not load those
 * parts again. Large parts of a manifest are read and hashed one at a time, so at most one of them is in memory twice. Once read from the
 * store, they are in shared memory, so that the engine's threads need no copy.
 */
import type { OpenExternalPart } from "../core/checkpoint-source.ts";
import { Manifest, type Part, type TeamManifest } from "../core/contracts/checkpoint.ts";
import { objectKeys } from "../core/contracts/keys.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import type { CheckpointFile, CheckpointFiles, ObjectStore, Store } from "../core/ports.ts";
import { sha256, sha256InTurns } from "../engine/hash.ts";
import { recordBytes } from "./identity.ts";

export const WEIGHTS = "model.safetensors";
const ADAPTER = "adapter_model.safetensors";
/** The index of sharded weights. */
const WEIGHTS_INDEX = `${WEIGHTS}.index.json`;
/** Identifies the model of an agent behind an API, which has no weights. */
export const ENDPOINT_FILE = "endpoint.json";

/** Parts above this size are large. */
const LARGE_BYTES = 64e6;

type Files = Manifest["files"];

/** Adam's state, in one file or in shards. */
export const isOptimizer = (name: string): boolean =>
  /^optimizer(-\d+-of-\d+)?\.safetensors(\.index\.json)?$/.test(name);

const isShard = (name: string): boolean => /-\d+-of-\d+\.safetensors$/.test(name);

/** `tinker.json` names weights stored on a server. */
export const isWeights = (name: string): boolean =>
  !isOptimizer(name) && /(\.safetensors(\.index\.json)?|^tinker\.json)$/.test(name);

/**
 * The SHA-256 that identifies a version's weights: the hash of its adapter (its base does not change), of its single file, of the list of
 * names and hashes of its shards and their index, or of the file that describes the model of an agent behind an API.
 */
export function weightsSha256(files: Files): string {
  const adapter = files[ADAPTER];
  if (adapter) return adapter.sha256;
  const hashes = Object.entries(files)
    .filter(([name]) => isWeights(name))
    .map(([name, { sha256: hash }]) => [name, hash] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const [first, second] = hashes;
  const { [ENDPOINT_FILE]: endpoint } = files;
  if (endpoint) return endpoint.sha256;
  if (!first) throw new MgrpoError("checkpoint-damaged", `a manifest names no ${WEIGHTS} and no shards: restore it`);
  return second ? sha256(hashes.map((entry) => entry.join(" ")).join("\n")) : first[1];
}

/** A version's files after a save. A saved whole model replaces all earlier weight files, and a saved Adam state the earlier one. */
export function replaceFiles(files: Files, saved: Files): Files {
  const isModel = WEIGHTS in saved || WEIGHTS_INDEX in saved;
  const hasOptimizer = Object.keys(saved).some(isOptimizer);
  const isReplaced = (name: string) => (isModel && isWeights(name)) || (hasOptimizer && isOptimizer(name));
  const kept = Object.entries(files).filter(([name]) => !isReplaced(name));
  return { ...Object.fromEntries(kept), ...saved };
}

export interface Checkpoints {
  /** The manifest of a version, or undefined while it is not published. */
  find(agent: string, version: number): Promise<Manifest | undefined>;
  /** The manifest of a version that must exist. */
  manifest(agent: string, version: number): Promise<Manifest>;
  /** Publishes a version and drops cached parts that it does not name. False: another manifest of that version came first. */
  publish(manifest: Manifest): Promise<boolean>;
  /** Rejects unless every manifest is the one that the team names, by its hash. */
  verifyTeam(team: TeamManifest): Promise<void>;
  /** The files of a manifest, each verified against its hash. `inference`: all except Adam's state. */
  files(manifest: Pick<Manifest, "agent" | "files">, which: "all" | "inference"): Promise<CheckpointFiles>;
  /** Hashes bytes that this process produced, and caches them for `files` unless they are Adam's state or a shard. */
  register(agent: string, name: string, bytes: Uint8Array): Promise<Part>;
  /** Commits a part's bytes at their content hash. */
  store(part: Part, bytes: Uint8Array): Promise<void>;
}

export function openCheckpoints(run: string, { objects }: Store, openExternalPart?: OpenExternalPart): Checkpoints {
  return new RunCheckpoints(run, objects, openExternalPart);
}

class RunCheckpoints implements Checkpoints {
  readonly #run: string;
  readonly #objects: ObjectStore;
  readonly #openExternalPart: OpenExternalPart | undefined;
  /** Agent -> SHA-256 -> bytes of a part. */
  readonly #cache = new Map<string, Map<string, Uint8Array>>();
  /** For each agent, the last manifest that this process published. A manifest is immutable. */
  readonly #published = new Map<string, Manifest>();

  constructor(run: string, objects: ObjectStore, openExternalPart: OpenExternalPart | undefined) {
    this.#run = run;
    this.#objects = objects;
    this.#openExternalPart = openExternalPart;
  }

  async find(agent: string, version: number): Promise<Manifest | undefined> {
    const run = this.#run;
    const own = this.#published.get(agent);
    if (own?.version === version) return own;
    const key = objectKeys.manifest(run, agent, version);
    const bytes = await this.#objects.get(key);
    if (!bytes) return undefined;
    const manifest = parseJson(Manifest, bytes, key);
    if (manifest.run === run && manifest.agent === agent && manifest.version === version) return manifest;
    const found = `version ${manifest.version} of agent '${manifest.agent}' of run '${manifest.run}'`;
    throw damaged(`${key} is the manifest of ${found}; it was replaced`);
  }

  async manifest(agent: string, version: number): Promise<Manifest> {
    const manifest = await this.find(agent, version);
    if (manifest) return manifest;
    const key = objectKeys.manifest(this.#run, agent, version);
    throw new MgrpoError("not-found", `${key} is missing: version ${version} was not published`);
  }

  async publish(manifest: Manifest): Promise<boolean> {
    const { agent, version, files } = manifest;
    const won = await this.#objects.commit(objectKeys.manifest(this.#run, agent, version), recordBytes(manifest));
    if (won) this.#published.set(agent, manifest);
    const named = new Set(Object.values(files).map(({ sha256: hash }) => hash));
    const cached = this.#cacheOf(agent);
    for (const hash of cached.keys()) if (!named.has(hash)) cached.delete(hash);
    return won;
  }

  async verifyTeam({ agents }: TeamManifest): Promise<void> {
    const verified = Object.values(agents).map(async ({ manifest: key, sha256: expected }) => {
      const bytes = await this.#objects.get(key);
      if (!bytes) throw damaged(`${key} is missing`);
      if (sha256(bytes) !== expected) throw damaged(`${key} is not the one that its team names; it was replaced`);
    });
    await Promise.all(verified);
  }

  async files({ agent, files }: Pick<Manifest, "agent" | "files">, which: "all" | "inference") {
    const wanted = Object.entries(files)
      .filter(([name]) => which === "all" || !isOptimizer(name))
      .sort(([a], [b]) => (a < b ? -1 : 1));
    let turn: Promise<unknown> = Promise.resolve();
    const loaded = await Promise.all(
      wanted.map(async ([name, part]) => {
        const load = () => this.#load(agent, name, part);
        const loading = part.bytes > LARGE_BYTES ? turn.then(load) : load();
        if (part.bytes > LARGE_BYTES) turn = loading;
        return { name, part, file: await loading };
      }),
    );
    const cached = new Map<string, Uint8Array>();
    for (const { name, part, file } of loaded) {
      if (!isOptimizer(name) && file instanceof Uint8Array) cached.set(part.sha256, file);
    }
    this.#cache.set(agent, cached);
    return new Map(loaded.map(({ name, file }) => [name, file]));
  }

  async register(agent: string, name: string, bytes: Uint8Array): Promise<Part> {
    const hash = await sha256InTurns(bytes);
    if (!isOptimizer(name) && !isShard(name)) this.#cacheOf(agent).set(hash, bytes);
    return { sha256: hash, bytes: bytes.length };
  }

  async store({ sha256: hash }: Part, bytes: Uint8Array): Promise<void> {
    await this.#objects.commit(objectKeys.part(this.#run, hash), bytes, hash);
  }

  async #load(agent: string, name: string, part: Part): Promise<CheckpointFile> {
    const { sha256: hash, bytes: size, origin } = part;
    if (origin !== undefined && this.#openExternalPart) return this.#openExternalPart({ ...part, origin });
    const cached = this.#cacheOf(agent).get(hash);
    if (cached) return cached;
    const key = objectKeys.part(this.#run, hash);
    const bytes = await this.#objects.get(key);
    if (!bytes) throw damaged(`${key} (${name} of agent '${agent}') is missing`);
    if (bytes.length !== size || (await sha256InTurns(bytes)) !== hash)
      throw damaged(`${key} (${name} of agent '${agent}') does not match its hash`);
    return size > LARGE_BYTES ? inSharedMemory(bytes) : bytes;
  }

  #cacheOf(agent: string): Map<string, Uint8Array> {
    const cached = this.#cache.get(agent) ?? new Map<string, Uint8Array>();
    this.#cache.set(agent, cached);
    return cached;
  }
}

function inSharedMemory(bytes: Uint8Array): Uint8Array {
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  return shared;
}

const damaged = (fault: string) => new MgrpoError("checkpoint-damaged", `${fault}: restore it`);
