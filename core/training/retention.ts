/**
 * @file Which weights are kept (design rule 10): the last versions, evaluated ones, every `keepEvery`-th. Manifests stay for ever;
 * only parts go, and only those that no kept manifest names. What was said and how it was scored (outcomes, invocations, GROUP
 * records: nearly all of what a long run writes) stays for 90 days, where the store forgets by itself; scores of evaluations stay.
 */
import type { Manifest } from "../contracts/checkpoint.ts";
import type { RunConfig } from "../contracts/config.ts";
import { objectKeys } from "../contracts/keys.ts";
import { dueSuites } from "./evaluation.ts";

/** As stacks/storage.ts has it for the bucket. */
export const CONVERSATION_DAYS = 90;

/** When a group that is finalized now may be forgotten, in seconds since 1970. `storeTime` in ms. */
export function expiryOf(storeTime: number): number {
  return Math.ceil(storeTime / 1000) + CONVERSATION_DAYS * 86_400;
}

/** Whether version v stays for good: version 0, evaluated teams, every `keepEvery`-th. */
export function isKept(config: RunConfig, version: number): boolean {
  const { keepEvery } = config.retention;
  return (
    version === 0 ||
    version === config.steps ||
    dueSuites(config, version).length > 0 ||
    (keepEvery > 0 && version % keepEvery === 0)
  );
}

/** The version that version `newest` pushes out of the last ones, if it is not kept for good. */
export function expiredVersion(config: RunConfig, newest: number): number | undefined {
  const version = newest - config.retention.last;
  return version > 0 && !isKept(config, version) ? version : undefined;
}

/**
 * Versions whose manifests may name a part of the expired one: base files are named by all; weights only by neighbours, over
 * steps that trained nothing. So: version 0, the nearest kept one before, and all that follow.
 */
export function neighbours(config: RunConfig, expired: number): number[] {
  let before = expired - 1;
  while (before > 0 && !isKept(config, before)) before--;
  const after = Array.from({ length: config.retention.last }, (_, i) => expired + 1 + i);
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
