/** @file `--judge <model>` as settings of the run config. */
import { LanguageModelSpec } from "../../core/contracts/language-model.ts";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";

const MODEL_SETTING_PREFIX = "judge.model.";

/**
 * The settings of `--set` and the judge that `--judge` names. That judge's model is written as an object, so that settings of the model which
 * follow it, such as `judge.model.json=text`, can change it. A text that names no model comes last: the config's schema refuses it.
 */
export function withJudge(judge: string | undefined, set: readonly string[]): readonly string[] {
  if (judge === undefined) return set;
  const { data: model } = LanguageModelSpec.safeParse(jsonOrUndefined(judge) ?? judge);
  if (!model) return [...set, `judge.model=${judge}`];
  const ofModel = set.filter((setting) => setting.startsWith(MODEL_SETTING_PREFIX));
  const others = set.filter((setting) => !setting.startsWith(MODEL_SETTING_PREFIX));
  return [...others, `judge.model=${JSON.stringify(model)}`, ...ofModel];
}
