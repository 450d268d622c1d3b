/**
 * @file The DEPLOYMENT record, the only record that belongs to no run: bucket, release, schedule and fleets. The stacks write it. A table
 * without it belongs to no deployment; then no machines are started and there is no schedule to turn on or off.
 */
import * as z from "zod";
import { AgentName } from "./names.ts";
import { parse, parseJson } from "./parse.ts";
import { WorkerRole } from "./records.ts";

/** An Auto Scaling group of identical instances. No two fleets of a deployment serve the same agent in the same role. */
export const Fleet = z.strictObject({
  name: AgentName,
  /** The agent that the fleet's workers serve. `*`: they evaluate the whole team. */
  agent: z.union([AgentName, z.literal("*")]),
  roles: z.array(WorkerRole).min(1),
  /** The Auto Scaling group's name. */
  group: z.string().min(1),
  /** Largest number of instances. */
  max: z.int().positive(),
  /** The mgrpo release that the fleet's instances install. */
  release: z.string().min(1),
  /** If the fleet's only instance runs a Tinker server: the default policy of the fleet's agent, which uses it. Absent: the recipe's policy. */
  policy: z.string().exactOptional(),
});
export type Fleet = z.infer<typeof Fleet>;

export const Deployment = z.strictObject({
  bucket: z.string().min(1),
  /** The deployed release, `<version>+<hash of what workers run>`. A run must be launched from the same release. */
  release: z.string().min(1),
  /** The EventBridge rule that calls tick every minute while it is on. */
  clockRule: z.string().min(1),
  /** Empty if workers run on the user's own machines. */
  fleets: z.array(Fleet),
});
export type Deployment = z.infer<typeof Deployment>;

/** The stacks write the deployment as one JSON string. */
const DeploymentItem = z.strictObject({ deployment: z.string() });

/** Parses the item at `tableKeys.deployment`. Undefined if there is none. */
export function parseDeployment(item: unknown): Deployment | undefined {
  if (item === undefined) return undefined;
  return parseJson(Deployment, parse(DeploymentItem, item, "DEPLOYMENT").deployment, "DEPLOYMENT");
}
