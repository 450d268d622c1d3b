/**
 * @file A recipe's rewards, checked. An exception in them, or a result that is not a score, is an error in the user's code: it halts the run
 * with one line that names the place, and never counts as a lost rollout. Rewards with a judge are not checked here: their failures may be the
 * judge's.
 */
import { dirname, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { type Judgment, Verdict } from "../core/contracts/judge.ts";
import type { Question } from "../core/contracts/question.ts";
import { isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { Rewards } from "../core/ports.ts";
import { framesOf } from "../core/stack-frames.ts";

/** One call to the user's code. */
interface RewardCall {
  readonly file: string;
  readonly method: "correct" | "expert";
  readonly question: Question;
}

/**
 * `file`: the recipe's rewards file, as messages name it. The returned functions reject with `rewards-invalid`, or with the MgrpoError
 * that the recipe threw.
 */
export function checkedRewards(rewards: Rewards, file: string): Rewards {
  if (rewards.judge !== undefined) return rewards;
  return {
    correct: (question, conversation, context) =>
      check({ file, method: "correct", question }, () => rewards.correct(question, conversation, context)),
    expert: (question, agent, conversation, context) =>
      check({ file, method: "expert", question }, () => rewards.expert(question, agent, conversation, context)),
  };
}

async function check(call: RewardCall, score: () => Judgment | Promise<Judgment>): Promise<Judgment> {
  const judgment = await run(call, score);
  const isObject = typeof judgment === "object" && judgment !== null;
  const { error } = Verdict.safeParse(isObject ? judgment : { score: judgment });
  if (!error) return judgment;
  const [issue] = error.issues;
  const at = issue?.path.join(".");
  const why = isObject ? ` (${at ? `${at}: ` : ""}${issue?.message})` : "";
  throw fault(call, `returned ${textOf(judgment)}${why}: return a number from 0 to 1, or { score, turns }`);
}

/** On one line: the stack of an Error is left out. */
function textOf(value: unknown): string {
  const text = inspect(value, {
    compact: true,
    breakLength: Number.POSITIVE_INFINITY,
    depth: 1,
    maxArrayLength: 10,
    maxStringLength: 40,
  });
  const [line = ""] = text.split("\n", 1);
  return line;
}

async function run(call: RewardCall, score: () => Judgment | Promise<Judgment>): Promise<Judgment> {
  try {
    return await score();
  } catch (cause) {
    if (isMgrpoError(cause)) throw cause;
    throw fault(call, whatThrew(call.file, cause), cause);
  }
}

function fault({ file, method, question }: RewardCall, what: string, cause?: unknown): MgrpoError {
  return new MgrpoError("rewards-invalid", `${file}: ${method}() for question '${question.id}' ${what}`, { cause });
}

/** What code in a recipe's file threw, on one line: `threw TypeError: … (at <file>:<line>:<column>)`. */
export function whatThrew(file: string, error: unknown): string {
  const [text = ""] = String(error).split("\n", 1);
  return `threw ${text}${frameIn(file, error)}`;
}

/** ` (at <file>:<line>:<column>)`: the innermost frame in the recipe's folder; empty where the stack has none, as in a bundle. */
function frameIn(file: string, error: unknown): string {
  const frame = framesOf(error, fileURLToPath).find((one) => one.includes(dirname(file) + sep));
  return frame === undefined ? "" : ` (at ${frame})`;
}
