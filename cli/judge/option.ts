/** @file `--judge <model>` as settings of the run config. */
import { LanguageModelSpec } from "../../core/contracts/language-model.ts";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";

const MODEL_SETTING_PREFIX = "judge.model.";

/**
 * The settings of `--set`, with the model of `--judge` added. It overrides `judge.model=…`. Settings of its fields, such as
 * `judge.model.json=text`, come after it, so that they override the model's own; but if the text names no model, it comes last: then the
 * config's schema refuses the text, and not a setting of the model.
 */
export function withJudge(judge: string | undefined, set: readonly string[]): readonly string[] {
  if (judge === undefined) return set;
  const model = `judge.model=${judge}`;
  if (!LanguageModelSpec.safeParse(jsonOrUndefined(judge) ?? judge).success) return [...set, model];
  const ofModel = set.filter((setting) => setting.startsWith(MODEL_SETTING_PREFIX));
  const others = set.filter((setting) => !setting.startsWith(MODEL_SETTING_PREFIX));
  return [...others, model, ...ofModel];
}
