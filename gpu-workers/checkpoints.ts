/**
 * @file Manifests and their parts, read with their hashes checked. The parts of an agent's newest manifest stay in memory (all but
 * Adam's state), so that a process that just trained a version, or samples from it already, does not load it again.
 */
import type { OpenOutside } from "../core/checkpoint-source.ts";
import { Manifest, type Part, type TeamManifest } from "../core/contracts/checkpoint.ts";
import { objectKeys } from "../core/contracts/keys.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import type { CheckpointFile, CheckpointFiles, Store } from "../core/ports.ts";
import { sha256 } from "../engine/hash.ts";
import { recordBytes } from "./identity.ts";

export const WEIGHTS = "model.safetensors";
export const ADAPTER = "adapter_model.safetensors";
export const OPTIMIZER = "optimizer.safetensors";
/** Of an agent behind an API, in place of weights: whose they are. */
export const ENDPOINT = "endpoint.json";

type Files = Manifest["files"];

/** `tinker.json` says where a server keeps them. */
const isWeights = (name: string): boolean =>
  name !== OPTIMIZER && /(\.safetensors(\.index\.json)?|^tinker\.json)$/.test(name);

/**
 * What a version's weights are known by: the SHA-256 of its adapter, whose base does not change, or of its one file, or, of shards, that
 * of the list of their hashes. Behind an API: of whose they are.
 */
export function weightsSha256(files: Files): string {
  const adapter = files[ADAPTER];
  if (adapter) return adapter.sha256;
  const hashes = Object.entries(files)
    .filter(([name]) => isWeights(name))
    .map(([name, { sha256: hash }]) => [name, hash] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const [first, second] = hashes;
  const { [ENDPOINT]: endpoint } = files;
  if (endpoint) return endpoint.sha256;
  if (!first) throw new MgrpoError("checkpoint-damaged", `a manifest names no ${WEIGHTS} and no shards: restore it`);
  return second ? sha256(hashes.map((entry) => entry.join(" ")).join("\n")) : first[1];
}

/** A version's files with what was saved in place of what it replaces: one file of weights comes for all shards of the base. */
export function replaceFiles(files: Files, saved: Files): Files {
  const kept = Object.entries(files).filter(([name]) => !(WEIGHTS in saved && isWeights(name)));
  return { ...Object.fromEntries(kept), ...saved };
}

export interface Checkpoints {
  /** The manifest of a version, or undefined while it is not published. */
  find(agent: string, version: number): Promise<Manifest | undefined>;
  /** The same; a version that must exist. */
  manifest(agent: string, version: number): Promise<Manifest>;
  /** Publishes a version, and forgets the parts of the one before: false when another manifest of it was there first. */
  publish(manifest: Manifest): Promise<boolean>;
  /** Rejects unless every manifest is the one that the team names, by its hash. */
  verifyTeam(team: TeamManifest): Promise<void>;
  /** The files of a manifest, each verified against its hash. */
  files(manifest: Pick<Manifest, "agent" | "files">, which: "all" | "inference"): Promise<CheckpointFiles>;
  /** What bytes that this process made will be known by; remembers them for `files`. */
  register(agent: string, name: string, bytes: Uint8Array): Part;
  /** Puts them at their content hash. */
  store(part: Part, bytes: Uint8Array): Promise<void>;
}

export function openCheckpoints(run: string, { objects }: Store, openOutside?: OpenOutside): Checkpoints {
  const parts = new Map<string, Map<string, Uint8Array>>();
  /** The newest manifest of each agent that this process published. It cannot change. */
  const published = new Map<string, Manifest>();
  const remembered = (agent: string) => {
    const mine = parts.get(agent) ?? new Map<string, Uint8Array>();
    parts.set(agent, mine);
    return mine;
  };

  async function find(agent: string, version: number) {
    const own = published.get(agent);
    if (own?.version === version) return own;
    const key = objectKeys.manifest(run, agent, version);
    const bytes = await objects.get(key);
    if (!bytes) return undefined;
    const manifest = parseJson(Manifest, bytes, key);
    if (manifest.run === run && manifest.agent === agent && manifest.version === version) return manifest;
    const named = `version ${manifest.version} of agent '${manifest.agent}' of run '${manifest.run}'`;
    throw new MgrpoError("checkpoint-damaged", `${key} is the manifest of ${named}; somebody replaced it: restore it`);
  }

  async function part(agent: string, name: string, named: Part): Promise<CheckpointFile> {
    const { sha256: hash, bytes: size, origin } = named;
    if (origin !== undefined && openOutside) return openOutside({ ...named, origin });
    const known = remembered(agent).get(hash);
    if (known) return known;
    const key = objectKeys.part(run, hash);
    const bytes = await objects.get(key);
    if (!bytes)
      throw new MgrpoError("checkpoint-damaged", `${key} (${name} of agent '${agent}') is missing: restore it`);
    if (bytes.length !== size || sha256(bytes) !== hash) {
      throw new MgrpoError(
        "checkpoint-damaged",
        `${key} (${name} of agent '${agent}') is not what its name says: restore it`,
      );
    }
    return bytes;
  }

  return {
    find,
    async manifest(agent, version) {
      const manifest = await find(agent, version);
      if (manifest) return manifest;
      throw new MgrpoError(
        "not-found",
        `${objectKeys.manifest(run, agent, version)} is missing: version ${version} was not published`,
      );
    },
    async publish(manifest) {
      const { agent, version } = manifest;
      const won = await objects.commit(objectKeys.manifest(run, agent, version), recordBytes(manifest));
      if (won) published.set(agent, manifest);
      const named = new Set(Object.values(manifest.files).map(({ sha256: hash }) => hash));
      const mine = remembered(agent);
      for (const hash of mine.keys()) if (!named.has(hash)) mine.delete(hash);
      return won;
    },
    async verifyTeam({ agents }) {
      const named = Object.values(agents).map(async ({ manifest: key, sha256: expected }) => {
        const bytes = await objects.get(key);
        if (bytes && sha256(bytes) === expected) return;
        const fault = bytes ? "is not the one that its team names; somebody replaced it" : "is missing";
        throw new MgrpoError("checkpoint-damaged", `${key} ${fault}: restore it`);
      });
      await Promise.all(named);
    },
    async files(manifest, which) {
      const { agent } = manifest;
      const names = Object.keys(manifest.files).sort();
      const wanted = names.filter((name) => which === "all" || name !== OPTIMIZER);
      const loaded = await Promise.all(
        wanted.map(async (name) => [name, await part(agent, name, manifest.files[name] as Part)] as const),
      );
      const kept = new Map<string, Uint8Array>();
      for (const [name, bytes] of loaded) {
        if (name !== OPTIMIZER && bytes instanceof Uint8Array) kept.set((manifest.files[name] as Part).sha256, bytes);
      }
      parts.set(agent, kept);
      return new Map(loaded);
    },
    register(agent, name, bytes) {
      const hash = sha256(bytes);
      if (name !== OPTIMIZER) remembered(agent).set(hash, bytes);
      return { sha256: hash, bytes: bytes.length };
    },
    async store({ sha256: hash }, bytes) {
      await objects.commit(objectKeys.part(run, hash), bytes, hash);
    },
  };
}
