/**
 * @file sign-test: two teams of the recipe gazetteer on the same held-out questions. Reads two files, each either answers (`submission-run<n>.jsonl` of
 * `mgrpo eval --suite`) or a run's `held-out.json`, of which the trained team's `test` counts. Prints how many questions each answers correctly,
 * how many it alone answers correctly, and the two-sided p-value.
 *
 *     node dist/bench/sign-test.js results/gazetteer-confirmation/mgrpo.jsonl results/gazetteer-confirmation/main-only.jsonl      # after `node build.mjs`
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import * as z from "zod";
import { fail } from "../cli/terminal/fail.ts";
import type { Conversation } from "../core/contracts/conversation.ts";
import { parseJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import { signTest } from "../core/sign-test.ts";
import { questionSet } from "../recipes/gazetteer/questions/questions.ts";
import { rewards } from "../recipes/gazetteer/rewards.ts";

const Answer = z.strictObject({ id: z.string(), answer: z.string() });
/** The parts of held-out.json that are read. */
const RecordedScores = z.array(
  z.object({ suite: z.string(), questions: z.array(z.object({ question: z.string(), correct: z.number() })) }),
);

/** The held-out questions do not depend on the seed. */
const questions = new Map(questionSet(1).heldOut.map((question) => [question.id, question]));

/** By question, whether the team answers it correctly. */
async function readCorrect(path: string): Promise<Map<string, boolean>> {
  const text = readFileSync(path, "utf8");
  if (path.endsWith(".jsonl")) return scored(text.trim().split("\n"), path);
  const suites = parseJson(RecordedScores, text, path).filter(({ suite }) => suite === "test");
  return new Map(suites.at(-1)?.questions.map(({ question, correct }) => [question, correct > 0]));
}

async function scored(lines: readonly string[], path: string): Promise<Map<string, boolean>> {
  const correct = new Map<string, boolean>();
  for (const line of lines) {
    const { id, answer } = parseJson(Answer, line, path);
    const question = questions.get(id);
    if (!question) throw new MgrpoError("not-found", `${path}: gazetteer has no held-out question '${id}'`);
    const conversation: Conversation = { prompt: question.prompt, turns: [], stop: "answered", answer, fault: null };
    correct.set(id, (await rewards.correct(question, conversation)) === 1);
  }
  return correct;
}

async function compare(first: string | undefined, second: string | undefined): Promise<object> {
  if (first === undefined || second === undefined)
    throw new MgrpoError("config-invalid", "name two files: answers (.jsonl) or a run's held-out.json");
  const [a, b] = [await readCorrect(first), await readCorrect(second)];
  const shared = [...a.keys()].filter((id) => b.has(id));
  if (shared.length === 0) {
    const advice = "name answers to the same questions, or runs that were evaluated on the suite 'test'";
    throw new MgrpoError("not-found", `${first} and ${second} have no question in common: ${advice}`);
  }
  const alone = (one: typeof a, other: typeof a) => shared.filter((id) => one.get(id) && !other.get(id)).length;
  const correctIn = (one: typeof a) => shared.filter((id) => one.get(id)).length;
  const [aAlone, bAlone] = [alone(a, b), alone(b, a)];
  const counts = { n: shared.length, correct: [correctIn(a), correctIn(b)], alone: [aAlone, bAlone] };
  return { bench: "sign-test", ...counts, p: signTest(aAlone, bAlone) };
}

const { positionals } = parseArgs({ allowPositionals: true });
await compare(positionals[0], positionals[1]).then((result) => console.log(JSON.stringify(result)), fail);
