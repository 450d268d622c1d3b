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

/** By the name of its `sst secret set`: values that stand nowhere but where they belong. */
export const SECRETS = {
  WorkerToken: "token-that-no-template-may-show",
  SearchKey: "search-key-that-no-template-may-show",
  ModelKey: "model-key-that-no-template-may-show",
  JudgeKey: "judge-key-that-no-template-may-show",
};

export async function setup(project: TestProject): Promise<void> {
  const secrets = Object.fromEntries(Object.entries(SECRETS).map(([name, value]) => [`SST_SECRET_${name}`, value]));
  project.provide("prod", await evaluate("prod", { ...secrets, MGRPO_ALERT_EMAIL: "ops@example.org" }));
  project.provide("serverless", await evaluate("home", { MGRPO_FLEETS: "none" }));
}
