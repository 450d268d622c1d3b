/**
 * @file A recipe's case studies in a finished run: for each, the share of passed checks before and after training, and up to three held-out
 * questions with one rollout each of the untrained and the trained team. Questions on which the team improved come first, in the
 * order of the held-out set; the counts of improved and worsened questions are shown.
 */
import type { RunConfig } from "../../core/contracts/config.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Store } from "../../core/ports.ts";
import type { CaseStudy, Recipe } from "../../core/recipe.ts";
import type { Tag, Tree } from "../../ui/views.ts";
import { type HeldOutRollout, scoreStudy } from "../held-out-scores.ts";
import { readRollouts, shownSuite } from "../local/held-out-rollouts.ts";
import { readJobs, readRun } from "../local/read-records.ts";
import { counted, percent } from "../terminal/columns.ts";
import { heldOutTree } from "./tree.ts";

const SHOWN = 3;

/** A question's first rollout with a check, before and after training. */
interface Pair {
  readonly before: HeldOutRollout;
  readonly after: HeldOutRollout;
  /** Share of passed checks in all rollouts of the question, after minus before. */
  readonly gain: number;
}

export async function loadCases(store: Store, config: RunConfig, recipe: Recipe): Promise<Tree[]> {
  const { caseStudies = [] } = recipe;
  const suite = shownSuite(config);
  if (caseStudies.length === 0 || !suite) {
    const reason = suite
      ? `recipe '${config.recipe}' has no case studies`
      : "the run has no open-book suite of held-out questions";
    throw new MgrpoError("not-found", `nothing to show: ${reason}`);
  }
  const { status, step } = await readRun(store, config.run);
  const jobs = (await readJobs(store, config.run)).filter((job) => job.suite === suite.name && job.state === "done");
  const [first, last] = [jobs.find(({ team }) => team === 0), jobs.find(({ team }) => team === step)];
  if (status !== "finished" || !first || !last) {
    const reason =
      status === "finished"
        ? `suite '${suite.name}' has not yet been answered by both the first and the last team of run '${config.run}'`
        : `run '${config.run}' is ${status}: case studies compare the first and last team of a finished run`;
    throw new MgrpoError("not-found", reason);
  }
  const [before, after] = await Promise.all([first, last].map((job) => readRollouts(store, config, job)));
  return caseStudies.map((study) => studyTree(study, before ?? [], after ?? [], recipe));
}

/** A study on the rollouts of one suite. All of them count in the share, and in which questions are better or worse. */
export function studyTree(
  study: CaseStudy,
  before: readonly HeldOutRollout[],
  after: readonly HeldOutRollout[],
  recipe: Pick<Recipe, "note">,
): Tree {
  const pairs = pairsOf(study, before, after);
  const better = pairs.filter(({ gain }) => gain > 0);
  const worse = pairs.filter(({ gain }) => gain < 0);
  const shown = [...better, ...pairs.filter(({ gain }) => gain <= 0)].slice(0, SHOWN);
  const [from, to] = [scoreStudy(study, before), scoreStudy(study, after)];
  return {
    title: study.name,
    tags: [
      { text: `${share(from)} → ${share(to)}`, tone: to.correct * from.n >= from.correct * to.n ? "good" : "bad" },
      { text: `better on ${counted(better.length, "question")}, worse on ${worse.length}`, tone: "faint" },
    ],
    body: study.expected,
    children: shown.map((pair) => pairTree(study, pair, recipe.note?.(pair.before.question))),
  };
}

function pairsOf(study: CaseStudy, before: readonly HeldOutRollout[], after: readonly HeldOutRollout[]): Pair[] {
  const checked = (rollouts: readonly HeldOutRollout[], id: string) =>
    rollouts.filter((rollout) => rollout.question.id === id && scoreStudy(study, [rollout]).n > 0);
  const rate = (rollouts: readonly HeldOutRollout[]) => {
    const { n, correct } = scoreStudy(study, rollouts);
    return correct / n;
  };
  const ids = [...new Set(before.map(({ question }) => question.id))];
  return ids.flatMap((id) => {
    const [earlier, later] = [checked(before, id), checked(after, id)];
    const [first, last] = [earlier[0], later[0]];
    return first && last ? [{ before: first, after: last, gain: rate(later) - rate(earlier) }] : [];
  });
}

function pairTree(study: CaseStudy, { before, after }: Pair, note: string | undefined): Tree {
  const side = (title: string, rollout: HeldOutRollout): Tree => {
    const score = scoreStudy(study, [rollout]);
    const tone: Tag["tone"] = score.correct === score.n ? "good" : "bad";
    return heldOutTree(title, [{ text: `${study.name}: ${score.correct} of ${score.n}`, tone }], rollout);
  };
  const { question } = before;
  return {
    title: question.prompt,
    tags: [{ text: question.kind, tone: "faint" }],
    note,
    sideBySide: true,
    children: [side("before training", before), side("after training", after)],
  };
}

const share = ({ n, correct }: { n: number; correct: number }) => (n === 0 ? "-" : percent(correct / n));
