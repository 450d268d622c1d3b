/**
 * @file A recipe's rewards, checked. An exception in them, or a result that is not a score, is an error in the user's code: it ends the run
 * with one line that names the place, and never counts as a lost rollout. Rewards that ask a judge pass unchecked: the judge may be at fault
 * there.
 */
import type { Judgment } from "../core/contracts/judge.ts";
import type { Question } from "../core/contracts/question.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { Rewards } from "../core/ports.ts";

/** One call of the user's code. */
interface Call {
  readonly file: string;
  readonly method: "correct" | "expert";
  readonly question: Question;
}

/** `file` is the recipe's rewards file, as messages name it. Its calls reject with `rewards-invalid`. */
export function checkedRewards(rewards: Rewards, file: string): Rewards {
  if (rewards.judge !== undefined) return rewards;
  return {
    correct: (question, conversation, context) =>
      check({ file, method: "correct", question }, () => rewards.correct(question, conversation, context)),
    expert: (question, agent, conversation, context) =>
      check({ file, method: "expert", question }, () => rewards.expert(question, agent, conversation, context)),
  };
}

async function check(call: Call, score: () => Judgment | Promise<Judgment>): Promise<Judgment> {
  const judgment = await run(call, score);
  const value: unknown = typeof judgment === "object" && judgment !== null ? judgment.score : judgment;
  if (!isScore(value)) throw fault(call, `returned ${String(value)}: return a number from 0 to 1`);
  const turns: unknown = typeof judgment === "object" ? judgment.turns : undefined;
  if (turns === undefined || (Array.isArray(turns) && turns.every((one) => one === null || isScore(one))))
    return judgment;
  throw fault(call, `returned turns ${JSON.stringify(turns)}: return a number from 0 to 1, or null, for each turn`);
}

const isScore = (value: unknown): boolean => typeof value === "number" && value >= 0 && value <= 1;

async function run(call: Call, score: () => Judgment | Promise<Judgment>): Promise<Judgment> {
  try {
    return await score();
  } catch (cause) {
    if (isMgrpoError(cause)) throw cause;
    const [text = ""] = String(cause).split("\n", 1);
    throw fault(call, `threw ${text}${frameIn(call.file, cause)}`, cause);
  }
}

function fault({ file, method, question }: Call, what: string, cause?: unknown): MgrpoError {
  return new MgrpoError("rewards-invalid", `${file}: ${method}() of question '${question.id}' ${what}`, { cause });
}

/** ` (at <file>:<line>:<column>)`: the innermost frame in the recipe's folder; empty where the stack has none, as in a bundle. */
function frameIn(file: string, error: unknown): string {
  const folder = file.slice(0, file.lastIndexOf("/") + 1);
  const lines = error instanceof Error ? (error.stack ?? "").split("\n") : [];
  const frames = lines.flatMap((line) => /^\s+at (?:.*\()?((?!data:)[^()]+:\d+:\d+)\)?$/.exec(line)?.[1] ?? []);
  const frame = frames.find((one) => one.includes(folder));
  return frame === undefined ? "" : ` (at ${frame.replace(/^file:\/\//, "").replace(/\?[^:]*/, "")})`;
}
