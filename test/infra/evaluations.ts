/** @file Evaluates the deployments that the tests look into, once for all of them. */
import type { TestProject } from "vitest/node";
import { type Deployment, evaluate } from "./resources.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Stage prod, with everything. */
    prod: Deployment;
    /** Another stage, without fleets. */
    serverless: Deployment;
  }
}

export const SECRET_TOKEN = "token-that-no-template-may-show";

export async function setup(project: TestProject): Promise<void> {
  const secrets = { SST_SECRET_WorkerToken: SECRET_TOKEN };
  project.provide("prod", await evaluate("prod", { ...secrets, MGRPO_ALERT_EMAIL: "ops@example.org" }));
  project.provide("serverless", await evaluate("home", { MGRPO_FLEETS: "none" }));
}
