/** @file Evaluates the deployments that the tests look into, once for all of them. */
import { resolve } from "node:path";
import type { TestProject } from "vitest/node";
import { type Deployment, evaluate } from "./resources.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Stage prod, with everything. */
    prod: Deployment;
    /** Another stage, without fleets, and with a project of a user. */
    serverless: Deployment;
  }
}

/** A project of a user: the template of create-mgrpo. */
const PROJECT = resolve(import.meta.dirname, "../../create/template");

/** By the name of its `sst secret set`: values that stand nowhere but where they belong. */
export const SECRETS = {
  WorkerToken: "token-that-no-template-may-show",
  SearchKey: "search-key-that-no-template-may-show",
  ModelKey: "model-key-that-no-template-may-show",
  JudgeKey: "judge-key-that-no-template-may-show",
};

export async function setup(project: TestProject): Promise<void> {
  const secrets = Object.fromEntries(Object.entries(SECRETS).map(([name, value]) => [`SST_SECRET_${name}`, value]));
  // First: the other deployment leaves dist/ as a checkout without a project has it.
  project.provide("serverless", await evaluate("home", { MGRPO_FLEETS: "none", MGRPO_PROJECT: PROJECT }));
  project.provide("prod", await evaluate("prod", { ...secrets, MGRPO_ALERT_EMAIL: "ops@example.org" }));
}
