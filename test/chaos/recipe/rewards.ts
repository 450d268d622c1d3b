/** @file Rewards by the judge of the trial, through the same client as any judge behind an API. */
import { judgedRewards } from "../../../adapters/judges/judged-rewards.ts";
import { openLanguageModel } from "../../../adapters/llm/open.ts";
import { MgrpoError } from "../../../core/errors.ts";
import type { OpenRewards } from "../../../core/recipe.ts";

export const rewards: OpenRewards = ({ config: { judge }, environment }) => {
  if (!judge) throw new MgrpoError("config-invalid", "a trial needs a judge");
  return judgedRewards({ model: openLanguageModel(judge.model, { environment, pauseSeconds: 0.1 }), config: judge });
};
