/**
 * @file Asks a recipe's rewards for a verdict. A judge that costs is asked once per trajectory: its verdicts are objects, and the first one
 * counts. Its cost is recorded as soon as it has answered, even if the answer is no verdict.
 */
import { costOfFailure, type Judgement, Verdict } from "../contracts/judge.ts";
import { objectKeys } from "../contracts/keys.ts";
import { canonicalJson, parse, parseJson } from "../contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../errors.ts";
import type { Store } from "../ports.ts";
import { addJudgeSpending } from "./bills.ts";

type AskJudge = () => Judgement | Promise<Judgement>;

/**
 * `judge`: `Rewards.judge`. `subject`: the SHA-256 of what is judged. A failure is `judge-failed`, retryable, with its cause, or the user's
 * own `rewards-invalid`.
 */
export async function askForVerdict(
  { objects, table }: Pick<Store, "objects" | "table">,
  run: string,
  judge: string | undefined,
  subject: string,
  ask: AskJudge,
): Promise<Verdict> {
  if (judge === undefined) return askJudge(ask);
  const key = objectKeys.verdict(run, subject, judge);
  const stored = await objects.get(key);
  if (stored) return parseJson(Verdict, stored, key);
  const verdict = await askJudge(ask).catch(async (error: MgrpoError) => {
    await addJudgeSpending(table, run, 0, costOfFailure(error.cause)?.usd ?? 0);
    throw error;
  });
  await addJudgeSpending(table, run, 1, verdict.cost?.usd ?? 0);
  if (await objects.commit(key, new TextEncoder().encode(canonicalJson(verdict)))) return verdict;
  const first = await objects.get(key);
  return first ? parseJson(Verdict, first, key) : verdict;
}

async function askJudge(ask: AskJudge): Promise<Verdict> {
  let judgement: Judgement;
  try {
    judgement = await ask();
  } catch (cause) {
    if (isMgrpoError(cause, "rewards-invalid")) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new MgrpoError("judge-failed", `the judge failed: ${why}`, { retryable: true, cause });
  }
  const verdict = typeof judgement === "object" ? judgement : { score: judgement };
  try {
    return parse(Verdict, verdict, "the judge's verdict");
  } catch (cause) {
    const message = `the judge answered ${verdict.score}: a score lies in [0, 1]`;
    throw new MgrpoError("judge-failed", message, { retryable: true, cause });
  }
}
