/**
 * @file Secrets, set with `sst secret set`. Functions get theirs as an environment variable; instances read theirs at boot from
 * encrypted parameters, so that none stands in a launch template.
 */
/// <reference path="../.sst/platform/config.d.ts" />
import type { Fleet } from "./fleet.ts";

/** A secret that only some recipes need has this value until it is set, and is kept from whoever would read it. */
const UNSET = "unset";

/** The variable that holds the key of a judge, in the functions that score and in workers that evaluate: `judge.model.keyVariable`. */
export const JUDGE_VARIABLE = "MGRPO_JUDGE_KEY";

export const createJudgeKey = () => new sst.Secret("JudgeKey", UNSET);

/** Of a key as functions get it: empty until it is set. */
export const plainKey = ({ value }: sst.Secret) => value.apply((key) => (key === UNSET ? "" : key));

/** A key of an API, for the workers of some fleets. */
export interface WorkerKey {
  /** What the worker finds it by in its environment. */
  readonly variable: string;
  readonly parameter: aws.ssm.Parameter;
  isFor(fleet: Fleet): boolean;
}

export interface WorkerSecrets {
  /** What delegations between workers are authenticated by: MGRPO_WORKER_TOKEN. Must be set. */
  readonly token: aws.ssm.Parameter;
  readonly keys: readonly WorkerKey[];
}

export function createWorkerSecrets(stage: string, judge: sst.Secret): WorkerSecrets {
  const parameter = (name: string, secret: sst.Secret) =>
    new aws.ssm.Parameter(name, { name: `/mgrpo/${stage}/${name}`, type: "SecureString", value: secret.value });
  const anyone = () => true;
  return {
    token: parameter("WorkerTokenParameter", new sst.Secret("WorkerToken")),
    keys: [
      // Web tools read it where `tools.search.keyVariable` names it.
      {
        variable: "MGRPO_SEARCH_KEY",
        parameter: parameter("SearchKeyParameter", new sst.Secret("SearchKey", UNSET)),
        isFor: anyone,
      },
      // For models behind an API that are part of the world (`tools.reason`, `tools.extract`) or of the team (`agents.<name>.endpoint`).
      {
        variable: "MGRPO_MODEL_KEY",
        parameter: parameter("ModelKeyParameter", new sst.Secret("ModelKey", UNSET)),
        isFor: anyone,
      },
      // Training is judged by functions.
      {
        variable: JUDGE_VARIABLE,
        parameter: parameter("JudgeKeyParameter", judge),
        isFor: ({ roles }) => roles.split(",").includes("eval"),
      },
    ],
  };
}
