/**
 * @file One evaluation: the team at its manifest's versions answers the questions of a suite, `runs` times. Run r of a question is rollout r
 * of its address, which names its random streams; so runs are independent, and run 0 does not depend on the number of runs. An evaluation
 * resumes from its outcomes and verdicts. What it writes about encrypted questions is encrypted, except its result, which does not quote
 * them.
 */
import { randomUUID } from "node:crypto";
import type { TeamManifest } from "../../core/contracts/checkpoint.ts";
import { type EvaluationSuite, hasOwnScorer, questionsAsked } from "../../core/contracts/evaluation-suite.ts";
import { totalCost, type Verdict } from "../../core/contracts/judge.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";
import { type FinishedOutcome, Outcome, type RolloutAddress } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError, refusalOf } from "../../core/errors.ts";
import type { VerdictContext } from "../../core/ports.ts";
import type { StreamName } from "../../core/random.ts";
import type { Scorer } from "../../core/scorer.ts";
import { crashReason } from "../../core/training/abandon-rollouts.ts";
import { accuracyInterval, sumTallies, sumTalliesBy, type Tally } from "../../core/training/confidence-interval.ts";
import { addressStep } from "../../core/training/evaluation.ts";
import { decideAfterFailure } from "../../core/training/judge-failures.ts";
import { appVerdict, isWellFormed, UNJUDGED } from "../../core/training/score.ts";
import { askForVerdict } from "../../core/training/verdict.ts";
import { sha256 } from "../../engine/hash.ts";
import type { AppParts } from "../gateway/gateway-service.ts";
import { wholeTeam } from "../gateway/whole-team.ts";
import { recordBytes } from "../identity.ts";
import type { HostedAgent } from "../rollouts/agent.ts";
import { attemptRollout, type RolloutHost } from "../rollouts/attempt-rollout.ts";
import type { RunContext } from "../run-context.ts";
import { withEncryption } from "./encrypted-run.ts";
import { type CrashHistory, type RolloutSteps, suspectsFirst } from "./suspects-first.ts";

/** The pause between two attempts to get a verdict doubles, from the minimum up to the maximum. */
const MIN_PAUSE_SECONDS = 0.5;
const MAX_PAUSE_SECONDS = 8;

export interface EvaluationTask {
  readonly run: RunContext;
  /** The whole team, by name. */
  readonly agents: ReadonlyMap<string, HostedAgent>;
  readonly scorer: Scorer;
  readonly job: string;
  readonly team: TeamManifest;
  readonly suite: EvaluationSuite;
  /** The app that runs the rollouts. Absent: this program does. */
  readonly app?: AppParts;
  /** Whether an earlier worker began this job: if so, outcomes that exist are read instead of sampled again. */
  readonly resumed: boolean;
  readonly crashes: CrashHistory;
}

/** One rollout of an evaluation: run `rollout` of the question at `group`. */
interface SuiteRollout {
  readonly question: Question;
  readonly group: number;
  readonly rollout: number;
}

/** A rollout lost to a failure of infrastructure or the judge, or to crashes of its worker; `lost` is the reason. */
interface Lost {
  readonly lost: string;
}

/** Only verdicts count; neither lost rollouts nor those without a reference answer do. */
type SuiteScore = Verdict | Lost | "unscored";

interface ScoredSuiteRollout extends SuiteRollout {
  readonly score: SuiteScore;
}

export async function evaluateTeam(task: EvaluationTask, signal: AbortSignal): Promise<EvaluationResult> {
  const set = task.run.suiteQuestions(task.suite);
  return withEncryption(task.run, set, async (run, redact) => {
    const evaluation = { ...task, run };
    const started = run.store.clock.monotonic();
    const questions = questionsAsked(task.suite, set.questions);
    const rollouts = rolloutsOf(questions, task.suite.runs);
    const scored = await scoreAll(evaluation, rollouts, signal);
    const seconds = run.store.clock.monotonic() - started;
    return resultOf(evaluation, questions, scored, seconds, redact);
  });
}

/** Run by run, each in question order. */
function rolloutsOf(questions: readonly Question[], runs: number): SuiteRollout[] {
  const indices = Array.from({ length: runs }, (_, rollout) => rollout);
  return indices.flatMap((rollout) => questions.map((question, group) => ({ question, group, rollout })));
}

async function scoreAll(
  task: EvaluationTask,
  rollouts: readonly SuiteRollout[],
  signal: AbortSignal,
): Promise<readonly ScoredSuiteRollout[]> {
  const team = wholeTeam(task.run, task.agents, purposeOf(task), task.app);
  const steps: RolloutSteps<SuiteRollout, ScoredSuiteRollout> = {
    async run(rollout, until) {
      const outcome = await commitOutcome(task, team, rollout, until);
      return { ...rollout, score: await scoreOf(task, rollout.question, outcome, until) };
    },
    abandon: async (rollout, crashes) => ({ ...rollout, score: await abandon(task, rollout, crashes) }),
  };
  return suspectsFirst(rollouts, team.main.config.engine.slots, task.crashes, steps, signal);
}

/** Lost, even if it has a finished outcome: then its scoring crashed the worker. */
async function abandon(task: EvaluationTask, rollout: SuiteRollout, crashes: number): Promise<Lost> {
  const { run } = task;
  const address = addressOf(task, rollout);
  const key = objectKeys.outcome(address);
  const reason = crashReason(crashes);
  run.log.warn("rollout abandoned", { key, reason });
  const outcome: Outcome = { status: "failed", address, questionId: rollout.question.id, reason };
  await run.store.objects.commit(key, recordBytes(outcome));
  return { lost: reason };
}

async function scoreOf(
  { run, scorer, suite }: EvaluationTask,
  question: Question,
  outcome: Outcome,
  signal: AbortSignal,
): Promise<SuiteScore> {
  if (outcome.status === "failed") return { lost: outcome.reason };
  if (scorer.isScored?.(question) === false) return "unscored";
  if (!isWellFormed(outcome.conversation)) return UNJUDGED;
  // An app's own reward would not be the benchmark's score.
  const given = hasOwnScorer(suite) ? undefined : appVerdict(outcome);
  return given ?? judge(run, scorer, question, outcome, signal);
}

const purposeOf = ({ run, suite }: EvaluationTask): StreamName => [run.config.seed, "evaluate", suite.name];

function addressOf({ run, job, team }: EvaluationTask, { group, rollout }: SuiteRollout): RolloutAddress {
  return { run: run.name, phase: `eval:${job}`, step: addressStep(run.config, team.team), group, rollout };
}

/** The first outcome committed at the rollout's address: this worker's or another's. */
async function commitOutcome(
  task: EvaluationTask,
  team: RolloutHost,
  rollout: SuiteRollout,
  signal: AbortSignal,
): Promise<Outcome> {
  const { run, suite, resumed } = task;
  const { question } = rollout;
  const address = addressOf(task, rollout);
  const key = objectKeys.outcome(address);
  const earlier = resumed && (await readOutcome(run, key));
  if (earlier) return earlier;
  const plan = {
    address,
    question,
    versions: Object.fromEntries(Object.entries(task.team.agents).map(([name, { version }]) => [name, version])),
    sampling: { temperature: suite.temperature, topP: 1, topK: 0 },
    purpose: purposeOf(task),
    closedBook: suite.closedBook,
  };
  const mine = await attemptRollout(team, plan, signal, () => true);
  const won = await run.store.objects.commit(key, recordBytes(mine));
  if (won) return mine;
  const winner = await readOutcome(run, key);
  if (winner) return winner;
  throw new MgrpoError("record-damaged", `${key} is committed, but missing from the store`);
}

function resultOf(
  { run, job, team, suite }: EvaluationTask,
  questions: readonly Question[],
  scored: readonly ScoredSuiteRollout[],
  seconds: number,
  redact: (text: string) => string,
): EvaluationResult {
  const perRun = sumTalliesBy(suite.runs, scored, ({ rollout }) => rollout, tallyOf);
  const tallies = sumTalliesBy(questions.length, scored, ({ group }) => group, tallyOf);
  const perQuestion = questions.map(({ id, kind }, i) => ({ question: id, kind, ...(tallies[i] as Tally) }));
  const judged = totalCost(scored.flatMap(({ score }) => (isVerdict(score) && score.cost) || []));
  const lost = scored.flatMap(({ question, score }) =>
    isLost(score) ? { question: question.id, reason: score.lost } : [],
  );
  const reasons = [...new Set(lost.map(({ reason }) => reason))].map(redact);
  return {
    run: run.name,
    job,
    team: team.team,
    suite: suite.name,
    ...sumTallies(scored.map(tallyOf)),
    runs: perRun,
    interval: accuracyInterval(perQuestion),
    lost: lost.map(({ question }) => question),
    questions: perQuestion,
    ...(judged && { judged }),
    seconds,
    ...(reasons.length > 0 && { reasons }),
  };
}

const tallyOf = ({ score }: ScoredSuiteRollout): Tally =>
  isVerdict(score) ? { n: 1, correct: score.score } : { n: 0, correct: 0 };

const isLost = (score: SuiteScore): score is Lost => typeof score === "object" && "lost" in score;
const isVerdict = (score: SuiteScore): score is Verdict => typeof score === "object" && "score" in score;

async function readOutcome({ store }: RunContext, key: string): Promise<Outcome | undefined> {
  const bytes = await store.objects.get(key);
  return bytes && parseJson(Outcome, bytes, key);
}

/**
 * The verdict, or `lost` when the judge refuses the text or gives no usable verdict: a failure of the judge never counts as a wrong answer.
 * Rejects with a refusal (`refusalOf`) when the judge's server refuses every request, its outage persists, or the recipe's rewards are at fault:
 * only the user can fix these. Rejects with `config-invalid` if the judge failed because of the config, and with `canceled` when the signal
 * aborts.
 */
async function judge(
  run: RunContext,
  scorer: Scorer,
  question: Question,
  outcome: FinishedOutcome,
  signal: AbortSignal,
): Promise<Verdict | Lost> {
  const { conversation } = outcome;
  const { verdictSeconds: seconds } = run.config.limits;
  const subject = sha256(recordBytes(outcome));
  // A copy: rewards may change the question that they are given, and other rollouts share it.
  const ask = (context: VerdictContext) => scorer.correct(structuredClone(question), conversation, context);
  for (let pause = MIN_PAUSE_SECONDS; ; pause = Math.min(2 * pause, MAX_PAUSE_SECONDS)) {
    if (signal.aborted) throw new MgrpoError("canceled", "the verdict was canceled");
    try {
      const verdict = await askForVerdict(run.store, {
        run: run.name,
        judge: scorer.judge,
        subject,
        question: question.id,
        seconds,
        token: randomUUID(),
        signal,
        ask,
      });
      if (verdict) return verdict;
    } catch (error) {
      if (!isMgrpoError(error, "judge-failed")) throw error;
      if (isMgrpoError(error.cause, "config-invalid")) throw error.cause;
      run.log.warn("judge failed", { question: question.id, error: error.message });
      const decision = decideAfterFailure(run.config, error);
      if (decision.kind === "exclude") return { lost: decision.reason };
      // The run is not halted here but by the caller: this error can quote an encrypted question until `withEncryption` has redacted it.
      if (decision.kind === "halt")
        throw refusalOf(error) ?? new MgrpoError("judge-failed", decision.halt.reason, { cause: error });
    }
    // The judge's claim is paused after a failure, or held by another worker, which may have died.
    await run.store.clock.sleep(pause, signal);
  }
}
