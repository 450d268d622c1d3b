/**
 * @file Weights to keep: the latest versions, which include those that steps in flight are sampled from; the first and the last version;
 * evaluated versions; references; and every `keepEvery`-th. Manifests stay forever. Only parts are deleted, and only those that no manifest of
 * kept weights names. Conversations and their scores (outcomes, invocations, GROUP records: nearly all that a long run writes) expire in a
 * deployment's store after 90 days, by the bucket's lifecycle rule and the table's TTL. Scores of evaluations stay.
 */
import type { Manifest } from "../contracts/checkpoint.ts";
import type { RunConfig } from "../contracts/config.ts";
import { objectKeys } from "../contracts/keys.ts";
import type { Table } from "../ports.ts";
import { dueSuites, readDueTeam } from "./evaluation.ts";
import { isReference } from "./reference.ts";

/** Must equal the number in stacks/storage.ts. */
export const CONVERSATION_DAYS = 90;

/** When a record that is complete now expires (a finalized group, a dead worker), in seconds since 1970. `storeTime` in ms. */
export function expiryOf(storeTime: number): number {
  return Math.ceil(storeTime / 1000) + CONVERSATION_DAYS * 86_400;
}

/** When such a record was completed, in ms, rounded up to a second. */
export const completedAt = (expiresAt: number): number => (expiresAt - CONVERSATION_DAYS * 86_400) * 1000;

/**
 * Whether a version is kept forever: the first and the last, those of evaluated teams, references of the KL term, every `keepEvery`-th.
 * `dueTeam`: what `readDueTeam` returns for this version. Its result for a later version serves too, unless a team after this version, up to the
 * later one, is evaluated.
 */
export function isKept(config: RunConfig, version: number, dueTeam: number): boolean {
  const { keepEvery } = config.retention;
  return (
    version === 0 ||
    version === config.steps ||
    dueSuites(config, version, dueTeam).length > 0 ||
    isReference(config.algorithm.kl, version) ||
    (keepEvery > 0 && version % keepEvery === 0)
  );
}

/** The size of the window of the latest versions: steps in flight are sampled from the versions that `staleness` adds. */
const windowOf = ({ retention, staleness }: RunConfig): number => retention.last + staleness;

/** A version to delete. */
export interface ExpiredVersion {
  readonly version: number;
  /** Versions whose manifests may name one of its parts. */
  readonly neighbors: readonly number[];
}

/** The version that leaves the window of the latest versions when `newest` enters it, unless it is kept forever. */
export async function readExpiredVersion(
  table: Pick<Table, "get">,
  config: RunConfig,
  newest: number,
): Promise<ExpiredVersion | undefined> {
  const version = newest - windowOf(config);
  if (version <= 0) return undefined;
  const dueTeam = await readDueTeam(table, config, version);
  return isKept(config, version, dueTeam) ? undefined : { version, neighbors: neighborsOf(config, version, dueTeam) };
}

/**
 * Versions whose manifests may name a part of the expired one. All manifests name the base files. Weights are shared only by successive
 * versions, across steps that trained nothing. So: version 0, the nearest kept version before it, and the window after it.
 */
function neighborsOf(config: RunConfig, expired: number, dueTeam: number): number[] {
  let before = expired - 1;
  while (before > 0 && !isKept(config, before, dueTeam)) before--;
  const after = Array.from({ length: windowOf(config) }, (_, i) => expired + 1 + i);
  return [...new Set([0, before, ...after])];
}

/** Keys of the parts that only the expired manifest names. */
export function expiredParts(expired: Manifest, kept: readonly Manifest[]): string[] {
  const named = new Set(kept.flatMap(({ files }) => Object.values(files).map(({ sha256 }) => sha256)));
  const parts = Object.values(expired.files).map(({ sha256 }) => sha256);
  return [...new Set(parts)]
    .filter((sha256) => !named.has(sha256))
    .map((sha256) => objectKeys.part(expired.run, sha256));
}
