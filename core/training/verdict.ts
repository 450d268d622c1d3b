/**
 * @file Asks rewards for a verdict. A judge that costs is asked once per trajectory: its verdicts are objects, and the first one counts.
 * What it costs is on the run's bill as soon as it has answered, also if that was no verdict.
 */
import { costOfFailure, type Judgement, Verdict } from "../contracts/judge.ts";
import { objectKeys } from "../contracts/keys.ts";
import { canonicalJson, parse, parseJson } from "../contracts/parse.ts";
import { isMgrpoError, MgrpoError } from "../errors.ts";
import type { Store } from "../ports.ts";
import { payJudge } from "./bills.ts";

type Ask = () => Judgement | Promise<Judgement>;

/** `subject` is the SHA-256 of what is judged. A failure is `judge-failed`, retryable, with its cause, or the user's `rewards-invalid`. */
export async function verdict(
  { objects, table }: Pick<Store, "objects" | "table">,
  run: string,
  judge: string | undefined,
  subject: string,
  ask: Ask,
): Promise<Verdict> {
  if (judge === undefined) return askJudge(ask);
  const key = objectKeys.verdict(run, subject, judge);
  const known = await objects.get(key);
  if (known) return parseJson(Verdict, known, key);
  const said = await askJudge(ask).catch(async (error: MgrpoError) => {
    await payJudge(table, run, 0, costOfFailure(error.cause)?.usd ?? 0);
    throw error;
  });
  await payJudge(table, run, 1, said.cost?.usd ?? 0);
  if (await objects.commit(key, new TextEncoder().encode(canonicalJson(said)))) return said;
  const first = await objects.get(key);
  return first ? parseJson(Verdict, first, key) : said;
}

async function askJudge(ask: Ask): Promise<Verdict> {
  let said: Judgement;
  try {
    said = await ask();
  } catch (cause) {
    if (isMgrpoError(cause, "rewards-invalid")) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new MgrpoError("judge-failed", `the judge failed: ${why}`, { retryable: true, cause });
  }
  try {
    return parse(Verdict, typeof said === "object" ? said : { score: said }, "the judge's verdict");
  } catch (cause) {
    const score = typeof said === "object" ? said.score : said;
    throw new MgrpoError("judge-failed", `the judge answered ${score}: a score lies in [0, 1]`, {
      retryable: true,
      cause,
    });
  }
}
