/**
 * @file Rewards: a judge's if the config names one; otherwise atlas's, which compare answers and whose expert (eq 5) knows only atlas's
 * worlds. Other questions need a judge, or an expert weight of 0 in the sub-agents' reward (`subReward.expert`).
 */
import { judgedRewards } from "../../adapters/judges/judged-rewards.ts";
import { openLanguageModel } from "../../adapters/llm/open.ts";
import { algorithmOf } from "../../core/contracts/algorithm-overrides.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { OpenRewards } from "../../core/recipe.ts";
import { rewards as atlas } from "../atlas/rewards.ts";

export const rewards: OpenRewards = ({ config, environment }) => {
  const { judge, questions, agents, main } = config;
  if (judge) {
    const byTurn = Object.keys(agents).find(
      (name) => agents[name]?.trained && algorithmOf(config, name).turnWeight > 0,
    );
    if (byTurn !== undefined) {
      const message = `a judge rewards no turns, and turnWeight of '${byTurn}' is above 0: set it to 0`;
      throw new MgrpoError("config-invalid", message);
    }
    return judgedRewards({ model: openLanguageModel(judge.model, { environment }), config: judge });
  }
  const scored = Object.keys(agents).find((name) => name !== main && algorithmOf(config, name).subReward.expert !== 0);
  if (questions && scored !== undefined) {
    const place = agents[scored]?.algorithm?.subReward ? `agents.${scored}.algorithm` : "algorithm";
    throw new MgrpoError(
      "config-invalid",
      `scoring sub-agents on questions of your own requires a judge: set judge.model, for instance to openai#gpt-5-mini, or ${place}.subReward.expert to 0`,
    );
  }
  return atlas;
};
