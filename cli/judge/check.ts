/** @file `mgrpo judge check`: compares a judge with human labels of the same answers or human scores of the same work. */
import { judgeCriteria, withFieldNames } from "../../adapters/judges/criteria.ts";
import { judgeCorrectness, judgeQuality } from "../../adapters/judges/vote.ts";
import { openLanguageModel } from "../../adapters/llm/open.ts";
import {
  costOfFailure,
  type JudgeConfig,
  type JudgeCost,
  totalCost,
  type Verdict,
} from "../../core/contracts/judge.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { VerdictContext } from "../../core/ports.ts";
import { agreementOf, areClose, scoreAgreementOf } from "../../core/training/agreement.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { inParallel } from "../../gpu-workers/parallel.ts";
import { openNamedRecipe, openRecipe } from "../../recipes/registry.ts";
import { readText } from "../local/run-folder.ts";
import { watchForStop } from "../local/stop.ts";
import { counted } from "../terminal/columns.ts";
import { refuseSettingsOfRuns } from "../unread-settings.ts";
import { type AnswerLabel, readLabels, type WorkLabel } from "./labels.ts";
import { withJudge } from "./option.ts";
import { type JudgeCheck, printJudgeCheck } from "./print.ts";

/** Labels judged concurrently; each sends its votes in parallel. */
const CONCURRENT_LABELS = 8;

export interface JudgeOptions {
  readonly recipe?: string;
  readonly judge?: string;
  readonly criteria?: string;
  readonly set: readonly string[];
}

export async function checkJudge(file: string, options: JudgeOptions): Promise<void> {
  const labels = readLabels(file);
  const config = await judgeOf(options);
  const judge = { model: openLanguageModel(config.model), config };
  const own = config.criteria ?? judgeCriteria();
  const text = options.criteria === undefined ? undefined : readCriteria(options.criteria);
  const stop = watchForStop();
  const context: VerdictContext = { signal: stop.signal, reserve: async () => {} };
  try {
    if (labels.kind === "answers") {
      const criteria = text === undefined ? own.correct : withFieldNames(text);
      const ask = ({ question, reference, answer }: AnswerLabel) =>
        judgeCorrectness(judge, criteria, { question, reference, answer }, context);
      show(await judgeAll(labels.labels, ask), checkAnswers, stop.signal);
    } else {
      const ask = ({ task, steps, report }: WorkLabel) =>
        judgeQuality(judge, text ?? own.expert, { input: { task, steps, report } }, context);
      show(await judgeAll(labels.labels, ask), checkWork, stop.signal);
    }
  } finally {
    stop.dispose();
  }
}

function readCriteria(file: string): string {
  const text = readText(file);
  if (text.trim() !== "") return text;
  throw new MgrpoError("config-invalid", `--criteria ${file} is empty: write the judge's instructions in it`);
}

interface JudgedLabels<Label> {
  readonly pairs: readonly { readonly label: Label; readonly verdict: Verdict }[];
  /** Includes the cost of replies that held no verdict. */
  readonly cost: JudgeCost | undefined;
  /** Undefined: every label has a verdict. */
  readonly failure: unknown;
}

/** An error that concerns one label does not stop the others. Any other error concerns every label: no further one is judged. */
async function judgeAll<Label>(
  labels: readonly Label[],
  ask: (label: Label) => Promise<Verdict>,
): Promise<JudgedLabels<Label>> {
  const verdicts: (Verdict | undefined)[] = labels.map(() => undefined);
  const failures: (MgrpoError | undefined)[] = labels.map(() => undefined);
  const costs: (JudgeCost | undefined)[] = [];
  let end: unknown;
  await inParallel(labels, CONCURRENT_LABELS, async (label, i) => {
    try {
      const verdict = await ask(label);
      verdicts[i] = verdict;
      costs.push(verdict.cost);
    } catch (error) {
      costs.push(costOfFailure(error));
      if (!isMgrpoError(error, "judge-failed")) throw error;
      failures[i] = error;
    }
  }).catch((error: unknown) => {
    end = error;
  });
  return {
    pairs: labels.flatMap((label, i) => {
      const verdict = verdicts[i];
      return verdict ? { label, verdict } : [];
    }),
    cost: totalCost(costs.flatMap((cost) => cost ?? [])),
    failure: end ?? labelFailure(failures),
  };
}

/** Names the first label that got no verdict: the user may have to change it. `failures`: by label. */
function labelFailure(failures: readonly (MgrpoError | undefined)[]): MgrpoError | undefined {
  const first = failures.findIndex((error) => error !== undefined);
  const cause = failures[first];
  if (!cause) return undefined;
  const others = failures.filter((error) => error !== undefined).length - 1;
  const more = others === 0 ? "" : ` (${others} more without a verdict)`;
  return new MgrpoError(cause.code, `label ${first + 1}: ${cause.message}${more}`, {
    retryable: cause.retryable,
    cause,
  });
}

/**
 * Prints how far the given verdicts agree with the labels, since they are paid for, before it throws the failure. If the user has stopped the
 * command, it says so instead.
 */
function show<Label>(
  judged: JudgedLabels<Label>,
  check: (judged: JudgedLabels<Label>) => JudgeCheck,
  stopped: AbortSignal,
): void {
  if (judged.pairs.length > 0) printJudgeCheck(check(judged));
  if (judged.failure === undefined) return;
  if (!stopped.aborted) throw judged.failure;
  console.error(`stopped after ${counted(judged.pairs.length, "verdict")}`);
  process.exitCode = 130;
}

function checkAnswers({ pairs, cost }: JudgedLabels<AnswerLabel>): JudgeCheck {
  return {
    kind: "answers",
    agreement: agreementOf(pairs.map(({ label, verdict }) => ({ label: label.correct, judged: verdict.score === 1 }))),
    disagreements: pairs.flatMap(({ label, verdict }) =>
      (verdict.score === 1) === label.correct
        ? []
        : { ...label, judged: verdict.score === 1, reason: reasonOf(verdict) },
    ),
    cost,
  };
}

function checkWork({ pairs, cost }: JudgedLabels<WorkLabel>): JudgeCheck {
  return {
    kind: "work",
    agreement: scoreAgreementOf(pairs.map(({ label, verdict }) => ({ label: label.score, judged: verdict.score }))),
    disagreements: pairs.flatMap(({ label: { steps: _, ...label }, verdict }) =>
      areClose({ label: label.score, judged: verdict.score })
        ? []
        : { ...label, judged: verdict.score, reason: reasonOf(verdict) },
    ),
    cost,
  };
}

/** The reason of the vote nearest to the verdict. The median of an even number of valid votes may be no vote's score. */
function reasonOf({ score, votes = [] }: Verdict): string {
  const distance = (vote: { readonly score: number }) => Math.abs(vote.score - score);
  return votes.toSorted((a, b) => distance(a) - distance(b))[0]?.reason ?? "";
}

/** The judge of the recipe's config with `--judge` and `--set judge.…` applied. */
async function judgeOf({ recipe: named, judge, set }: JudgeOptions): Promise<JudgeConfig> {
  const budget = "the number of labels, judge.votes and judge.maxTokens bound what it costs";
  // Whether the recipe's rewards need a judge may depend on the algorithm.
  const reads = (path: string) => path === "algorithm";
  refuseSettingsOfRuns("judge check", set, { reads, remedyFor: (path) => (path === "budget" ? budget : undefined) });
  const name = named ?? "atlas";
  const recipe = await (named === undefined ? openRecipe : openNamedRecipe)(name);
  const chosen = [...withJudge(judge, set), "steps=1"];
  const config = resolveConfig(recipe, { run: "judge", recipe: name, arm: "mgrpo", seed: 1, set: chosen });
  if (config.judge) return config.judge;
  throw new MgrpoError(
    "config-invalid",
    `recipe '${name}' has no judge: name one with --judge openai:<base url>#<model>`,
  );
}
