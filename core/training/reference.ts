/** @file Which version of an agent is the reference of the KL term: a function of config and version alone, so all workers agree on it. */
import type { AlgorithmConfig } from "../contracts/algorithm-config.ts";

type Kl = Pick<AlgorithmConfig["kl"], "refreshEvery">;

/** The reference while `version` is updated: version 0, or the newest multiple of `refreshEvery` (TR-DPO's hard update, arXiv 2404.09656). */
export function referenceVersion({ refreshEvery }: Kl, version: number): number {
  return refreshEvery === undefined ? 0 : version - (version % refreshEvery);
}

/** Whether a version's weights are kept because it serves as a reference. Version 0 is always kept (retention.ts). */
export const isReference = ({ refreshEvery }: Kl, version: number): boolean =>
  refreshEvery !== undefined && version % refreshEvery === 0;
