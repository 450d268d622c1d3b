/** @file Opens the models of a team to sample from, without a store: their files are read where they are. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { isEndpointPolicy } from "../../core/contracts/language-model.ts";
import { ownerOf, policySettings } from "../../core/contracts/shared-policy.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CheckpointFiles } from "../../core/ports.ts";
import { createBusyMeter } from "../../gpu-workers/busy.ts";
import { findEngines } from "../../gpu-workers/compose.ts";
import type { ServedAgent } from "../../gpu-workers/gateway/served-team.ts";
import {
  openPolicyVersions,
  type PolicyVersions,
  type VersionFiles,
} from "../../gpu-workers/rollouts/policy-versions.ts";
import { openToolsModule } from "../../recipes/registry.ts";
import { readBases } from "../local/base-models.ts";

export interface ServedAgents {
  readonly agents: ReadonlyMap<string, ServedAgent>;
  close(): Promise<void>;
}

/** Rejects unless every model can be opened. */
export async function openServedAgents(config: RunConfig): Promise<ServedAgents> {
  const local = Object.entries(config.agents).filter(([, { policy }]) => !isEndpointPolicy(policy));
  if (local.length === 0) {
    throw new MgrpoError("config-invalid", "every agent of this team is behind an API: there is nothing to serve");
  }
  const bases = await readBases({ ...config, agents: Object.fromEntries(local) }, "evaluate");
  // Only a recipe's own policies need its code.
  const needsRecipe = local.some(([, { policy }]) => policy.startsWith("recipe:"));
  const { policies } = needsRecipe ? await openToolsModule(config.recipe) : {};
  const engines = await findEngines(config.agents, policies);
  const meter = createBusyMeter();
  const agents = new Map<string, ServedAgent>();
  const opened = new Map<string, PolicyVersions>();
  for (const [owner, files] of bases) {
    const settings = policySettings(config.agents, owner);
    const engine = engines.get(settings.policy);
    if (!engine) throw new RangeError(`agent '${owner}' has no engine`);
    opened.set(
      owner,
      openPolicyVersions(owner, settings, engine, onlyVersion(files), meter, { limits: config.limits }),
    );
  }
  for (const [name, agent] of local) {
    const policy = opened.get(ownerOf(config.agents, name));
    if (policy) agents.set(name, { name, config: agent, policy });
  }
  const openedPolicies = [...opened.values()];
  const close = async () => {
    await Promise.all(openedPolicies.map((policy) => policy.close()));
  };
  try {
    await Promise.all(openedPolicies.map((policy) => policy.open(0)));
  } catch (error) {
    await close();
    throw error;
  }
  return { agents, close };
}

const onlyVersion = (files: CheckpointFiles): VersionFiles => ({
  manifest: async () => ({ files: {} }),
  files: async () => files,
});
