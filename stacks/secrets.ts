/**
 * @file Secrets, set with `sst secret set`. Functions get theirs as environment variables. Instances read theirs at boot from encrypted
 * parameters, so that no launch template contains one.
 */
/// <reference path="../.sst/platform/config.d.ts" />
import type { FleetSettings } from "./fleet.ts";

/** Value of an optional secret that is not set. `plainKey` and worker-boot.sh drop it. */
const UNSET = "unset";

/** Holds the judge's API key in the environment of functions that call or check judges, and of evaluation workers. `judge.model.keyVariable` names it. */
export const JUDGE_VARIABLE = "MGRPO_JUDGE_KEY";

export const createJudgeKey = () => new sst.Secret("JudgeKey", UNSET);

/** The key for functions: empty until it is set. */
export const plainKey = ({ value }: sst.Secret) => value.apply((key) => (key === UNSET ? "" : key));

/** An API key for the workers of some fleets. */
export interface WorkerKey {
  /** In the worker's environment. */
  readonly variable: string;
  readonly parameter: aws.ssm.Parameter;
  isFor(fleet: FleetSettings): boolean;
}

export interface WorkerSecrets {
  /** Authenticates delegations between workers: MGRPO_WORKER_TOKEN. Must be set. */
  readonly token: aws.ssm.Parameter;
  readonly keys: readonly WorkerKey[];
}

export function createWorkerSecrets(stage: string, judge: sst.Secret): WorkerSecrets {
  const parameter = (name: string, secret: sst.Secret) =>
    new aws.ssm.Parameter(name, { name: `/mgrpo/${stage}/${name}`, type: "SecureString", value: secret.value });
  /** A key that is optional, for all fleets. */
  const optional = (variable: string, name: string): WorkerKey => ({
    variable,
    parameter: parameter(`${name}Parameter`, new sst.Secret(name, UNSET)),
    isFor: () => true,
  });
  return {
    token: parameter("WorkerTokenParameter", new sst.Secret("WorkerToken")),
    keys: [
      // For web tools whose `tools.search.keyVariable` names it.
      optional("MGRPO_SEARCH_KEY", "SearchKey"),
      // For models behind an API, in tools (`tools.reason`, `tools.extract`) or in the team (`agents.<name>.endpoint`).
      optional("MGRPO_MODEL_KEY", "ModelKey"),
      // For agents on a hosted Tinker server (`agents.<name>.policy`).
      optional("TINKER_API_KEY", "TinkerKey"),
      // For gated and private models of the Hugging Face Hub.
      optional("HF_TOKEN", "HubToken"),
      // Functions judge training; workers judge only evaluations.
      {
        variable: JUDGE_VARIABLE,
        parameter: parameter("JudgeKeyParameter", judge),
        isFor: ({ roles }) => roles.split(",").includes("eval"),
      },
    ],
  };
}
