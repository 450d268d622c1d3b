/** @file The deployment that the table belongs to, and what the functions may change in it. */
import { type Deployment, parseDeployment } from "../core/contracts/deployment.ts";
import { tableKeys } from "../core/contracts/keys.ts";
import type { Controls } from "../core/ports.ts";
import type { Context } from "./context.ts";

export interface ControlledDeployment extends Deployment, Controls {}

/** Read on every call, since a new deployment changes it. Undefined if the table belongs to none, as on a laptop. */
export async function readDeployment({
  table,
  controlsOf,
}: Pick<Context, "table" | "controlsOf">): Promise<ControlledDeployment | undefined> {
  const deployment = parseDeployment(await table.get(tableKeys.deployment));
  return deployment && controlsOf && { ...deployment, ...controlsOf(deployment) };
}
