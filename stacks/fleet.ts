/** @file A fleet as sst.config.ts names it: instances that are alike, and whom they serve. */

export interface Fleet {
  readonly name: string;
  /** The agent it serves, or `*` for the whole team. */
  readonly agent: string;
  /** As `mgrpo worker --roles` takes them. */
  readonly roles: string;
  /** Whether an instance without a working NVIDIA driver is of no use. */
  readonly gpu: boolean;
  /** Interchangeable types for x86, the best first. */
  readonly instanceTypes: readonly string[];
  /** Instances at most; the least is always 0. */
  readonly max: number;
  /** So many are on demand, all others spot. */
  readonly onDemand: number;
}

/** As core/contracts/deployment.ts reads it. */
const NAME = /^[a-z][a-z0-9-]{0,30}$/;

/**
 * Names that nobody could read, and two that serve the same agent in the same role: each would give a run all the workers that it needs.
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
