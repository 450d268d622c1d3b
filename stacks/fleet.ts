/** @file A fleet as sst.config.ts defines it: identical instances, and the agent and roles they serve. */

export interface Fleet {
  readonly name: string;
  /** The agent it serves, or `*` for the whole team. */
  readonly agent: string;
  /** As in `mgrpo worker --roles`. */
  readonly roles: string;
  /** Whether an instance needs a working NVIDIA driver. */
  readonly gpu: boolean;
  /** Interchangeable x86 types, in order of preference. */
  readonly instanceTypes: readonly string[];
  /** Maximum number of instances; the minimum is always 0. */
  readonly max: number;
  /** Number of on-demand instances; all others are spot. */
  readonly onDemand: number;
}

/** As core/contracts/deployment.ts parses it. */
const NAME = /^[a-z][a-z0-9-]{0,30}$/;

/**
 * Rejects invalid names, and two fleets for the same agent and role: each would start all the workers that a run needs.
 */
export function refuseUnusable(fleets: readonly Fleet[]): void {
  const served = new Map<string, string>();
  for (const { name, agent, roles } of fleets) {
    if (!NAME.test(name)) throw new Error(`sst.config.ts: fleet ${name}: write lower-case letters, digits and '-'`);
    for (const role of roles.split(",")) {
      const other = served.get(`${agent} ${role}`);
      if (other !== undefined)
        throw new Error(`sst.config.ts: fleets ${other} and ${name} both serve ${agent} as ${role}: keep one of them`);
      served.set(`${agent} ${role}`, name);
    }
  }
}
