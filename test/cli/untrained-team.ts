/** @file A team before training, as records: each agent's version 0 is the base model, and team 1 consists of these versions. */
import type { Manifest, TeamManifest } from "../../core/contracts/checkpoint.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { Store } from "../../core/ports.ts";
import { sha256 } from "../../engine/hash.ts";
import { recordBytes } from "../../gpu-workers/identity.ts";
import { config, RUN } from "./records.ts";

/** Commits the records to a store; the agents' weights are the file `origin`, with the bytes `weights`. */
export async function commitUntrainedTeam({ objects }: Store, origin: string, weights: Uint8Array): Promise<void> {
  const files = { "model.safetensors": { sha256: sha256(weights), bytes: weights.length, origin } };
  const agents: TeamManifest["agents"] = {};
  for (const agent of Object.keys(config.agents)) {
    const manifest: Manifest = { run: RUN, agent, version: 0, trained: false, files, stats: null, seconds: null };
    const key = objectKeys.manifest(RUN, agent, 0);
    await objects.commit(key, recordBytes(manifest));
    agents[agent] = { version: 0, manifest: key, sha256: sha256(recordBytes(manifest)) };
  }
  await objects.commit(objectKeys.team(RUN, 1), recordBytes({ run: RUN, team: 1, agents }));
}
