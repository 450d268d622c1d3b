/**
 * @file One evaluation: the team at its manifest's versions over the questions of a suite, `runs` times. Run r of a question is
 * rollout r of its address, which names its random streams, so runs are independent and run 0 does not depend on how many there are.
 * Resumed by its outcomes and verdicts. What is said about encrypted questions is encrypted.
 */
import type { TeamManifest } from "../../core/contracts/checkpoint.ts";
import type { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { totalCost, type Verdict } from "../../core/contracts/judge.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import type { EvaluationResult } from "../../core/contracts/messages.ts";
import { parseJson } from "../../core/contracts/parse.ts";
import type { Question } from "../../core/contracts/question.ts";
import { type FinishedOutcome, Outcome } from "../../core/contracts/rollout.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Scorer } from "../../core/scorer.ts";
import { addressStep } from "../../core/training/evaluation.ts";
import { accuracyInterval, type Score, total } from "../../core/training/interval.ts";
import { isWellFormed, UNJUDGED } from "../../core/training/score.ts";
import { verdict } from "../../core/training/verdict.ts";
import { sha256 } from "../../engine/hash.ts";
import { recordBytes } from "../identity.ts";
import { inProcessDelegation } from "../invocations/in-process.ts";
import { inParallel } from "../parallel.ts";
import type { Agent } from "../rollouts/agent.ts";
import { attemptRollout, type Team } from "../rollouts/roll-out.ts";
import type { Run } from "../run.ts";
import { encrypting } from "./encrypted-run.ts";

export interface Evaluation {
  readonly run: Run;
  readonly agents: ReadonlyMap<string, Agent>;
  readonly scorer: Scorer;
  readonly job: string;
  readonly team: TeamManifest;
  readonly suite: EvaluationSuite;
  /** Whether an earlier worker had begun: outcomes are looked for before they are made. */
  readonly resumed: boolean;
}

/** One rollout of an evaluation: run `rollout` of the question at `group`. */
interface Asked {
  readonly question: Question;
  readonly group: number;
  readonly rollout: number;
}

/** To infrastructure; `lost` says why. */
interface Lost {
  readonly lost: string;
}

/** Neither what is lost nor what has no reference is counted. */
type Scored = Verdict | Lost | "unscored";

export async function evaluate(evaluation: Evaluation, signal: AbortSignal): Promise<EvaluationResult> {
  const set = evaluation.run.asked(evaluation.suite);
  return encrypting(evaluation.run, set, async (run, unquoted) => {
    const { reasons, ...result } = await askAll({ ...evaluation, run }, set.questions, signal);
    return { ...result, ...(reasons.length > 0 && { reasons: reasons.map(unquoted) }) };
  });
}

async function askAll(
  evaluation: Evaluation,
  all: readonly Question[],
  signal: AbortSignal,
): Promise<EvaluationResult & { readonly reasons: string[] }> {
  const { run, agents, suite, team, job, scorer } = evaluation;
  const main = agents.get(run.config.main);
  if (!main) throw new MgrpoError("config-invalid", `this process does not host the main agent '${run.config.main}'`);
  const started = run.store.clock.monotonic();
  const purpose = [run.config.seed, "evaluate", suite.name];
  const host: Team = { run, agent: main, delegation: inProcessDelegation(run, agents, purpose), complete: () => true };
  const questions = all.slice(0, suite.questions || all.length);
  const versions = Object.fromEntries(Object.entries(team.agents).map(([name, { version }]) => [name, version]));

  async function score({ question, group, rollout }: Asked): Promise<Scored> {
    const step = addressStep(run.config, team.team);
    const address = { run: run.name, phase: `eval:${job}`, step, group, rollout };
    const key = objectKeys.outcome(address);
    const sampling = { temperature: suite.temperature, topP: 1, topK: 0 };
    const plan = { address, question, versions, sampling, purpose, closedBook: suite.closedBook };
    const mine =
      (evaluation.resumed && (await read(run, key))) || (await attemptRollout(host, plan, signal, () => true));
    const won = await run.store.objects.commit(key, recordBytes(mine));
    const outcome = won ? mine : ((await read(run, key)) ?? mine);
    if (outcome.status === "failed") return { lost: outcome.reason };
    return scorer.isScored?.(question) === false ? "unscored" : judge(run, scorer, question, outcome);
  }

  const runs = Array.from({ length: suite.runs }, (_, rollout) => rollout);
  const asked = runs.flatMap((rollout) => questions.map((question, group): Asked => ({ question, group, rollout })));
  const scores = await inParallel(asked, main.config.engine.slots, score);
  /** Of the rollout at that place of `asked`. */
  const counted = scores.map((one): Score => (isVerdict(one) ? { n: 1, correct: one.score } : { n: 0, correct: 0 }));
  const perRun = runs.map((rollout) =>
    total(counted.slice(rollout * questions.length, (rollout + 1) * questions.length)),
  );
  const perQuestion = questions.map((question, group) => {
    const ofIt = runs.flatMap((rollout) => counted[rollout * questions.length + group] ?? []);
    return { question: question.id, kind: question.kind, ...total(ofIt) };
  });
  const judged = totalCost(scores.flatMap((one) => (isVerdict(one) && one.cost) || []));
  const lost = asked.flatMap(({ question }, i) => {
    const scored = scores[i];
    return scored && isLost(scored) ? { question: question.id, why: scored.lost } : [];
  });
  return {
    run: run.name,
    job,
    team: team.team,
    suite: suite.name,
    ...total(counted),
    runs: perRun,
    interval: accuracyInterval(perQuestion),
    lost: lost.map(({ question }) => question),
    reasons: [...new Set(lost.map(({ why }) => why))],
    questions: perQuestion,
    ...(judged && { judged }),
    seconds: run.store.clock.monotonic() - started,
  };
}

const isLost = (scored: Scored): scored is Lost => typeof scored === "object" && "lost" in scored;
const isVerdict = (scored: Scored): scored is Verdict => typeof scored === "object" && "score" in scored;

async function read({ store }: Run, key: string): Promise<Outcome | undefined> {
  const bytes = await store.objects.get(key);
  return bytes && parseJson(Outcome, bytes, key);
}

/**
 * The verdict, or why it is lost when the judge itself fails to the last attempt: an outage is never a wrong answer. Rejects when the judge's
 * server refuses to be asked (a wrong key, an empty account): nothing more is asked before somebody has mended that.
 */
async function judge(run: Run, scorer: Scorer, question: Question, outcome: FinishedOutcome): Promise<Verdict | Lost> {
  const { conversation } = outcome;
  if (!isWellFormed(conversation)) return UNJUDGED;
  const subject = sha256(recordBytes(outcome));
  const ask = () => scorer.correct(question, conversation);
  for (let attempt = 1; ; attempt++) {
    try {
      return await verdict(run.store, run.name, scorer.judge, subject, ask);
    } catch (error) {
      if (!isMgrpoError(error, "judge-failed")) throw error;
      if (isMgrpoError(error.cause, "endpoint-refused", "config-invalid")) throw error.cause;
      run.log.warn("judge failed", { question: question.id, attempt, error: error.message });
      if (attempt >= run.config.limits.attempts) return { lost: error.message };
      await run.store.clock.sleep(Math.min(0.1 * 2 ** attempt, 5));
    }
  }
}
