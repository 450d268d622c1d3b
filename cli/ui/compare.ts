/** @file The view of several runs compared: which of them are seeds of one arm, and the held-out scores of each arm. */
import { basename } from "node:path";
import type { CompareView } from "../../ui/compare-view.ts";
import { differingSettings } from "../../ui/settings.ts";
import { comparedSuites, differingSuites, type EvaluatedRun, measureArm, scoresOf } from "../compare/measure.ts";
import { readEvaluationScores } from "../local/held-out-rollouts.ts";
import type { Source } from "../show/source.ts";
import { cut } from "../terminal/flow.ts";

/** Maximum number of differing settings in a label. */
const MAX_LABEL_SETTINGS = 2;
/** Maximum length of a value in a label: a system message may be pages long. */
const MAX_VALUE_CHARACTERS = 40;

interface LabeledArm {
  readonly label: string;
  readonly sources: readonly Source[];
}

export async function compareView(sources: readonly Source[]): Promise<CompareView> {
  const arms = await Promise.all(
    armsOf(sources).map(async ({ label, sources: own }) => ({ label, runs: await Promise.all(own.map(evaluatedRun)) })),
  );
  const differing = differingSuites(arms.flatMap(({ runs }) => runs));
  const [first] = arms;
  return {
    leftOut: [...differing.values()],
    arms: arms.map(({ label, runs }) => {
      const compared = { label, runs, first: runs === first?.runs ? undefined : first?.runs };
      const suites = comparedSuites(runs).filter(({ suite }) => !differing.has(suite));
      const measured = suites.map((suite) => ({
        ...measureArm(compared, suite, "held-out", (question) => question),
        scored: runs.filter((run) => scoresOf(run, suite.suite, "after").length > 0).length,
      }));
      return { label, runs: runs.map(({ run }) => run), measured };
    }),
  };
}

/** For an unfinished run, the newest evaluated team counts as its last. */
async function evaluatedRun({ config, evaluations, read }: Source): Promise<EvaluatedRun> {
  const steps = Math.max(0, ...evaluations.map(({ team }) => team));
  const heldOut = evaluations.length === 0 ? [] : await read((store) => readEvaluationScores(store, config, steps, []));
  return { run: config.run, seed: config.seed, steps, heldOut };
}

/** The config without the settings that may differ within an arm: a comparison gives each seed its own token budget and number of steps. */
const armSettings = ({ config }: Source) => ({ ...config, seed: 0, steps: 0, sampledTokens: null });

/** Runs of one config and different seeds are one arm. */
function armsOf(sources: readonly Source[]): LabeledArm[] {
  const perArm: Source[][] = [];
  for (const source of sources) {
    const { config } = source;
    const own = perArm.find(
      ([one, ...others]) =>
        one &&
        differingSettings([one, source].map(armSettings)).length === 0 &&
        [one, ...others].every(({ config: { seed } }) => seed !== config.seed),
    );
    if (own) own.push(source);
    else perArm.push([source]);
  }
  const arms = perArm.map((own) => ({ label: labelOf(own, perArm), sources: own }));
  return arms.map((arm, i) => (arms.findIndex(({ label }) => label === arm.label) === i ? arm : withRunName(arm)));
}

/** For an arm that would have the label of another: they differ only in what labels leave out or cut, or not at all. */
const withRunName = ({ label, sources }: LabeledArm): LabeledArm => ({
  label: [label, ...sources.slice(0, 1).map(({ config }) => config.run)].join(", "),
  sources,
});

/**
 * Recipe and arm. A later arm with the same two also gets the first MAX_LABEL_SETTINGS settings that differ from the first such arm, or its run's
 * name if none do.
 */
function labelOf([source]: readonly Source[], arms: readonly (readonly Source[])[]): string {
  if (!source) return "";
  const baseLabel = baseLabelOf(source);
  const alike = arms.flatMap(([one]) => (one && baseLabelOf(one) === baseLabel ? [one] : []));
  const [first] = alike;
  if (!first || first === source) return baseLabel;
  const differing = differingSettings([first, source].map(armSettings));
  const set = differing.map(({ path, values: [, value = ""] }) => `${path}=${cut(value, MAX_VALUE_CHARACTERS)}`);
  return set.length > 0
    ? [baseLabel, ...set.slice(0, MAX_LABEL_SETTINGS)].join(", ")
    : `${baseLabel}, ${source.config.run}`;
}

/** The recipe's name, without the folders above it, and the arm. */
const baseLabelOf = ({ config: { recipe, arm } }: Source): string => `${basename(recipe)} ${arm}`;
