/**
 * @file The backend of a policy that runs on an engine: token in, token out. The layout says which tokens are shown, the sampler draws the
 * turns, and the log keeps both exactly as they were.
 */
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { escapeSpecialTokens } from "../../core/conversation/special-tokens.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Sampler, Tokenizer } from "../../core/ports.ts";
import { agentLayoutOf } from "./agent-layout.ts";
import type { AgentBackend, BackendOptions } from "./backend.ts";
import { TokenLog } from "./token-log.ts";

export function tokenBackend(
  options: BackendOptions,
  tokenizer: Tokenizer,
  sampler: Sampler,
): AgentBackend<Trajectory> {
  const { agent, version, config, sampling, streamName, sequence } = options;
  const layout = agentLayoutOf(agent, config, tokenizer, options.tools);
  const { ends } = tokenizer;
  const log = new TokenLog();
  /** Tokens to show before the next turn. */
  let pending: readonly number[] = [];
  /** Number of responses to each turn so far. */
  const responseCounts: number[] = [];
  requireRoom(options, layout.prompt("").length);

  return {
    toolbox: layout.toolbox,
    count: (text) => tokenizer.encodeText(escapeSpecialTokens(text)).length,
    start(prompt) {
      pending = layout.prompt(prompt);
      return pending.length;
    },
    async generate(turn, maxTokens, signal) {
      log.show(pending);
      const tokens = log.tokens();
      const request = {
        sequence,
        tokens,
        maxTokens,
        stop: ends.map((end) => [end]),
        sampling,
        stream: streamName(turn, tokens),
      };
      const sample = await sampler.sample(request, signal);
      log.act(request, sample, ends);
      // The sampler reports `length` if the end token is the last one allowed, but the turn has ended.
      const ended = ends.includes(sample.tokens.at(-1) ?? Number.NaN);
      const text = tokenizer.decode(ended ? sample.tokens.slice(0, -1) : sample.tokens);
      return { text, tokens: sample.tokens.length, stop: ended ? "stop" : "length" };
    },
    observe(responses) {
      pending = layout.responses(responses, responseCounts);
      responseCounts.push(responses.length);
      return pending.length;
    },
    trajectory: () => log.trajectory(agent, version),
    close: () => sampler.release(sequence),
  };
}

/** A context too small for any question is a mistake in the config, not the agent's failure. */
function requireRoom({ agent, config }: BackendOptions, tokens: number): void {
  const { contextTokens } = config.limits;
  if (tokens < contextTokens) return;
  throw new MgrpoError(
    "config-invalid",
    `agents.${agent}.limits.contextTokens is ${contextTokens}, but its system message, tools and template alone take ${tokens}: raise it`,
  );
}
