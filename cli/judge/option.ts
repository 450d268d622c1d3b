/** @file `--judge <model>` as settings of the run config. */
import { LanguageModelSpec } from "../../core/contracts/language-model.ts";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";

const OF_MODEL = "judge.model.";

/**
 * The settings of `--set` and the judge that `--judge` names. Settings of that judge's model, such as `judge.model.json=text`, come after its name,
 * which is an object for them. What names no model comes last: the config's schema refuses it.
 */
export function withJudge(judge: string | undefined, set: readonly string[]): readonly string[] {
  if (judge === undefined) return set;
  const { data: model } = LanguageModelSpec.safeParse(jsonOrUndefined(judge) ?? judge);
  if (!model) return [...set, `judge.model=${judge}`];
  const ofModel = set.filter((setting) => setting.startsWith(OF_MODEL));
  const others = set.filter((setting) => !setting.startsWith(OF_MODEL));
  return [...others, `judge.model=${JSON.stringify(model)}`, ...ofModel];
}
