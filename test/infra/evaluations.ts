/** @file Evaluates the deployments that the tests inspect, once for all of them. */
import { resolve } from "node:path";
import type { TestProject } from "vitest/node";
import { type Deployment, evaluate } from "./resources.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Stage prod: protected, with fleets, without servers. */
    prod: Deployment;
    /** A stage whose fleet of the main agent has a SkyRL server. */
    served: Deployment;
    /** Another stage, without fleets, and with a user's project. */
    serverless: Deployment;
  }
}

/** A user's project: the template of create-mgrpo. */
const PROJECT = resolve(import.meta.dirname, "../../create/template");

export const SERVED_MODEL = "Qwen/Qwen3-4B";

/** Secrets by their names in `sst secret set`. The values are unique, so that a test can find every place that has one. */
export const SECRETS = {
  WorkerToken: "token-that-no-template-may-show",
  SearchKey: "search-key-that-no-template-may-show",
  ModelKey: "model-key-that-no-template-may-show",
  TinkerKey: "tinker-key-that-no-template-may-show",
  HubToken: "hub-secret-that-no-template-may-show",
  JudgeKey: "judge-key-that-no-template-may-show",
};

export async function setup(project: TestProject): Promise<void> {
  const secrets = Object.fromEntries(Object.entries(SECRETS).map(([name, value]) => [`SST_SECRET_${name}`, value]));
  // First, because it puts a project into dist/: each later evaluation builds dist/ again, without one.
  project.provide("serverless", await evaluate("home", { MGRPO_FLEETS: "none", MGRPO_PROJECT: PROJECT }));
  project.provide("served", await evaluate("served", { ...secrets, MGRPO_SERVERS: `main=${SERVED_MODEL}` }));
  project.provide("prod", await evaluate("prod", { ...secrets, MGRPO_ALERT_EMAIL: "ops@example.org" }));
}
