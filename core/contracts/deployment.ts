/**
 * @file What a deployment says of itself, in the one record of its table that belongs to no run: its bucket, its clock, its fleets. The
 * stacks write it; a table that no stack made has none, and then nobody starts machines or turns a clock on and off.
 */
import * as z from "zod";
import { AgentName } from "./names.ts";
import { parse, parseJson } from "./parse.ts";
import { WorkerRole } from "./records.ts";

/** Instances that are alike: an autoscaling group. No two fleets of a deployment serve the same agent in the same role. */
export const Fleet = z.strictObject({
  name: AgentName,
  /** The agent that its workers serve; `*`: they evaluate the whole team. */
  agent: z.union([AgentName, z.literal("*")]),
  roles: z.array(WorkerRole).min(1),
  /** The autoscaling group's name. */
  group: z.string().min(1),
  /** Instances at most. */
  max: z.int().positive(),
  /** The release of the program that its instances install. */
  release: z.string().min(1),
});
export type Fleet = z.infer<typeof Fleet>;

export const Deployment = z.strictObject({
  bucket: z.string().min(1),
  /** The release that was deployed: `<version>+<hash of what workers run>`. Who launches has the same. */
  release: z.string().min(1),
  /** The EventBridge rule that calls tick every minute while it is enabled. */
  clockRule: z.string().min(1),
  /** Empty where workers run on machines of one's own. */
  fleets: z.array(Fleet),
});
export type Deployment = z.infer<typeof Deployment>;

/** The stacks write it as one JSON text. */
const DeploymentItem = z.strictObject({ deployment: z.string() });

/** From the item at `tableKeys.deployment`; undefined where there is none. */
export function parseDeployment(item: unknown): Deployment | undefined {
  if (item === undefined) return undefined;
  return parseJson(Deployment, parse(DeploymentItem, item, "DEPLOYMENT").deployment, "DEPLOYMENT");
}
