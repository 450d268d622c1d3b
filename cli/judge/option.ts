/** @file `--judge <model>` as settings of the run config. */
const MODEL_SETTING_PREFIX = "judge.model.";

/**
 * The settings of `--set`, with the model of `--judge` added. It overrides `judge.model=…`. Settings of its fields, such as
 * `judge.model.json=text`, come after it, so that they override the model's own.
 */
export function withJudge(judge: string | undefined, set: readonly string[]): readonly string[] {
  if (judge === undefined) return set;
  const ofModel = set.filter((setting) => setting.startsWith(MODEL_SETTING_PREFIX));
  const others = set.filter((setting) => !setting.startsWith(MODEL_SETTING_PREFIX));
  return [...others, `judge.model=${judge}`, ...ofModel];
}
