/**
 * @file `mgrpo/app`: for an app whose rollouts train a team while it runs elsewhere (`runner: { url }`). `rolloutHandler` answers the signed
 * requests of workers with what a `Rollout` returns. `rolloutHandler` throws `RangeError` if the secret is too short.
 */
export type { AgentAccess, AppCall, AppResult } from "../core/contracts/app-rollout.ts";
export type { AgentEndpoint, Rollout, RolloutContext } from "../core/recipe.ts";
export { type RolloutHandlerOptions, rolloutHandler } from "../gpu-workers/gateway/rollout-handler.ts";
