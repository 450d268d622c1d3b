/** @file Which version of an agent is the reference of the KL term. A function of the config alone, so every worker agrees on it. */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

type Kl = Pick<AlgorithmConfig["kl"], "refreshEvery">;

/** The reference while `version` is trained on: version 0, or the newest multiple of `refreshEvery` (TR-DPO's hard update, arXiv 2404.09656). */
export function referenceVersion({ refreshEvery }: Kl, version: number): number {
  return refreshEvery === undefined ? 0 : version - (version % refreshEvery);
}

/** Whether a version is ever a reference, so that its weights are kept. */
export const isReference = ({ refreshEvery }: Kl, version: number): boolean =>
  refreshEvery !== undefined && version % refreshEvery === 0;
