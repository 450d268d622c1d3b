/**
 * @file An agent whose tokens are ours: token in, token out. The layout says where tokens go, the sampler draws them, the log keeps them
 * as they were drawn.
 */
import type { Trajectory } from "../../core/contracts/rollout.ts";
import { escapeSpecialTokens } from "../../core/conversation/markers.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Sampler, Tokenizer } from "../../core/ports.ts";
import type { Part, Speaker } from "./backend.ts";
import { layoutOf } from "./layout.ts";
import { TokenLog } from "./token-log.ts";

export function tokenSpeaker(part: Part, tokenizer: Tokenizer, sampler: Sampler): Speaker<Trajectory> {
  const { agent, version, config, sampling, stream, sequence } = part;
  const layout = layoutOf(agent, config, tokenizer, part.tools);
  const { ends } = tokenizer;
  const log = new TokenLog();
  /** Tokens to show before the next turn. */
  let shown: readonly number[] = [];
  /** Responses that each turn so far got. */
  const heard: number[] = [];
  refuseNoRoom(part, layout.prompt("").length);

  return {
    toolbox: layout.toolbox,
    count: (text) => tokenizer.encodeText(escapeSpecialTokens(text)).length,
    ask(prompt) {
      shown = layout.prompt(prompt);
      return shown.length;
    },
    async say(turn, maxTokens, signal) {
      log.show(shown);
      const request = {
        sequence,
        tokens: log.tokens(),
        maxTokens,
        stop: ends.map((end) => [end]),
        sampling,
        stream: [...stream, "turn", turn],
      };
      const sample = await sampler.sample(request, signal);
      log.act(request, sample, ends);
      // The token may be the last one that was asked for: then the turn is over all the same.
      const ended = ends.includes(sample.tokens.at(-1) ?? Number.NaN);
      const text = tokenizer.decode(ended ? sample.tokens.slice(0, -1) : sample.tokens);
      return { text, tokens: sample.tokens.length, stop: ended ? "stop" : "length" };
    },
    hear(responses) {
      shown = layout.responses(responses, heard);
      heard.push(responses.length);
      return shown.length;
    },
    trajectory: () => log.trajectory(agent, version),
    close: () => sampler.release(sequence),
  };
}

/** A limit under which no question could be asked is a mistake in the config, not the agent's failure. */
function refuseNoRoom({ agent, config }: Part, tokens: number): void {
  const { contextTokens } = config.limits;
  if (tokens < contextTokens) return;
  throw new MgrpoError(
    "config-invalid",
    `agents.${agent}.limits.contextTokens is ${contextTokens}, but its system message, tools and template alone take ${tokens}: raise it`,
  );
}
