/**
 * @file The name of a turn's random stream. It begins with the scope: seed, purpose, step, group, rollout and agent. Then comes the turn's
 * place (in an app, its request) or, with `draws: tokens`, a hash of the tokens before it, so that an app and the native loop
 * sample identically after the same tokens.
 */
import type { RolloutAddress } from "../../core/contracts/rollout.ts";
import type { Draws } from "../../core/contracts/runner.ts";
import type { StreamName } from "../../core/random.ts";
import { sha256 } from "../../engine/hash.ts";

/** @param prefix the run's seed and the purpose. */
export function scopeOf(prefix: StreamName, { step, group, rollout }: RolloutAddress, agent: string): StreamName {
  return [...prefix, step, group, rollout, agent];
}

/** @param tokens all tokens of the conversation before the turn. */
export function streamName(draws: Draws, scope: StreamName, place: StreamName, tokens: readonly number[]): StreamName {
  return [...scope, ...(draws === "tokens" ? ["tokens", sha256(tokens.join())] : place)];
}
