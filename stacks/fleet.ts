/** @file A fleet as sst.config.ts defines it: interchangeable instances, and the agent and roles they serve. Unusable fleets are rejected. */

export interface FleetSettings {
  readonly name: string;
  /** The agent it serves, or `*` for the whole team. */
  readonly agent: string;
  /** As in `mgrpo worker --roles`. */
  readonly roles: string;
  /** Whether an instance needs a working NVIDIA driver. */
  readonly gpu: boolean;
  /** Interchangeable x86 types. On-demand instances prefer the first. */
  readonly instanceTypes: readonly string[];
  /** Maximum number of instances; the minimum is always 0. */
  readonly max: number;
  /** Number of on-demand instances; all others are spot. */
  readonly onDemand: number;
  /** The base model of a SkyRL server that an instance starts beside its worker. Absent: no server. */
  readonly server?: string;
}

/** The server listens on the instance's loopback address only, since it checks no key. */
export const SERVER_PORT = 8000;

/** The policy of agents whose fleet has a server: it selects the server's model by the name of the agent's model folder. */
export const SERVER_POLICY = `tinker:http://127.0.0.1:${SERVER_PORT}`;

/**
 * The fleets with their servers. The versions of an agent are on its server's disk, so such a fleet is a single on-demand instance that
 * samples and trains.
 */
export function withServers(fleets: readonly FleetSettings[], servers: ReadonlyMap<string, string>): FleetSettings[] {
  for (const name of servers.keys()) {
    const fleet = fleets.find((one) => one.name === name);
    if (!fleet) throw new Error(`MGRPO_SERVERS: sst.config.ts has no fleet ${name}`);
    if (fleet.gpu && fleet.agent !== "*" && /^(rollout,train|train,rollout)$/.test(fleet.roles)) continue;
    throw new Error(`MGRPO_SERVERS: fleet ${name} must have a GPU, and serve one agent's rollouts and training`);
  }
  return fleets.map((fleet) => {
    const server = servers.get(fleet.name);
    return server === undefined ? fleet : { ...fleet, server, max: 1, onDemand: 1 };
  });
}

/** As core/contracts/deployment.ts parses them. */
const NAME = /^[a-z][a-z0-9-]{0,30}$/;
const ROLES = ["rollout", "train", "eval"];

/**
 * Rejects fleets that tick and the workers could not read, and two fleets for the same agent and role: each would start all the workers
 * that a run needs.
 */
export function refuseUnusable(fleets: readonly FleetSettings[]): void {
  const served = new Map<string, string>();
  for (const fleet of fleets) {
    const { name, agent, roles } = fleet;
    const fault = faultOf(fleet);
    if (fault !== undefined) throw new Error(`sst.config.ts: fleet ${name}: ${fault}`);
    for (const role of roles.split(",")) {
      const other = served.get(`${agent} ${role}`);
      if (other !== undefined)
        throw new Error(`sst.config.ts: fleets ${other} and ${name} both serve ${agent} as ${role}: keep one of them`);
      served.set(`${agent} ${role}`, name);
    }
  }
}

function faultOf({ name, agent, roles, max, onDemand }: FleetSettings): string | undefined {
  const listed = roles.split(",");
  if (!NAME.test(name)) return "name: write 1 to 31 lower-case letters, digits or '-', the first a letter";
  if (name === "constructor" || agent === "constructor")
    return "name and agent: choose a word other than 'constructor', which every JavaScript object has";
  if (agent !== "*" && !NAME.test(agent)) return `agent: '${agent}': write an agent's name, or * for the whole team`;
  const unknown = listed.find((role) => !ROLES.includes(role));
  if (unknown !== undefined)
    return `roles: '${unknown}': write ${ROLES.join(", ")}, separated by commas without spaces`;
  const repeated = listed.find((role, i) => listed.indexOf(role) < i);
  if (repeated !== undefined) return `roles: '${repeated}' is listed twice: write it once`;
  const evaluates = listed.includes("eval");
  if ((agent === "*") !== evaluates || (evaluates && roles !== "eval"))
    return "write agent * with roles eval alone, and an agent's name with the other roles";
  if (!Number.isInteger(max) || max < 1) return `max: ${max}: write the largest number of instances, 1 or more`;
  if (!Number.isInteger(onDemand) || onDemand < 0 || onDemand > max)
    return `onDemand: ${onDemand}: write how many of its ${max} instances are on demand`;
  return undefined;
}
