/**
 * @file The questions of a run: the recipe's or the user's, and those of its benchmark suites. Files are read when the run is started; their
 * content travels with the run.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { READ_ATTACHMENT } from "../../core/contracts/attachment.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Benchmark, EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { JUDGED_BENCHMARKS } from "../../core/contracts/evaluation-suite.ts";
import { canonicalJson, parse } from "../../core/contracts/parse.ts";
import {
  OF_RECIPE,
  type Question,
  type QuestionFiles,
  QuestionSet,
  type SuiteQuestions,
} from "../../core/contracts/question.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { openReader, type Reader } from "../tools/documents/reader.ts";
import { loadGaia } from "./gaia.ts";
import { loadJsonl } from "./jsonl.ts";
import { loadReasoningGym } from "./reasoning-gym.ts";
import { loadWebWalkerQa } from "./webwalkerqa.ts";
import { loadXbench } from "./xbench.ts";

type Suite = EvaluationSuite & { readonly data: string };
type Loader = (suite: Suite, reader: Reader | undefined) => SuiteQuestions | Promise<SuiteQuestions>;

const LOADERS: Record<Benchmark, Loader> = {
  gaia: ({ data, attachments = "readable" }, reader) => loadGaia(data, attachments, reader),
  xbench: ({ data }) => loadXbench(data),
  webwalkerqa: ({ data }) => loadWebWalkerQa(data),
  "reasoning-gym": ({ data }) => loadReasoningGym(data),
  jsonl: ({ data }) => loadJsonl(data),
};

type QuestionSources = Pick<RunConfig, "seed" | "questions" | "evaluation" | "agents">;

/** All questions of a run. Rejects with `benchmark-damaged`, or with `recipe-invalid` for a fault in the recipe's own questions. */
export async function questionsOf(
  recipe: Pick<Recipe, "name" | "questions">,
  { seed, questions, evaluation, agents }: QuestionSources,
): Promise<QuestionSet> {
  const own = questions ? ownQuestions(questions, recipe, seed) : recipeQuestions(recipe, seed);
  const needsReader = Object.values(agents).some(({ tools }) => tools.includes(READ_ATTACHMENT));
  const reader = needsReader ? openReader() : undefined;
  return withBenchmarks(own, evaluation.suites, reader).finally(() => reader?.close());
}

function recipeQuestions(recipe: Pick<Recipe, "name" | "questions">, seed: number): QuestionSet {
  const set = parse(QuestionSet, recipe.questions(seed), `questions of recipe '${recipe.name}'`, "recipe-invalid");
  const both = trainedAndHeldOut(set);
  if (both === undefined) return set;
  throw new MgrpoError(
    "recipe-invalid",
    `recipe '${recipe.name}': question '${both}' is trained on and held out: give each question its own id`,
  );
}

/** The id of a question that is in both sets. */
function trainedAndHeldOut({ train, heldOut }: QuestionSet): string | undefined {
  const trained = new Set(train.map(({ id }) => id));
  return heldOut.find(({ id }) => trained.has(id))?.id;
}

function ownQuestions(
  { train: file, heldOut: heldOutFile }: QuestionFiles,
  recipe: Pick<Recipe, "name" | "questions">,
  seed: number,
): QuestionSet {
  const { questions: train } = loadJsonl(file);
  if (heldOutFile === OF_RECIPE) {
    const { heldOut } = recipeQuestions(recipe, seed);
    refuseHeldOutPrompts(file, train, heldOut);
    return { train, heldOut };
  }
  const heldOut = heldOutFile === undefined ? [] : loadJsonl(heldOutFile).questions;
  requireUniqueIds([...train, ...heldOut]);
  const both = trainedAndHeldOut({ train, heldOut });
  if (both === undefined) return { train, heldOut };
  throw new MgrpoError(
    "benchmark-damaged",
    `${heldOutFile}: its question '${both.replace(/^jsonl:/, "")}' is also in ${file}: held-out questions must not be trained on`,
  );
}

/** The ids of a file are its own, so a question of the recipe is recognized by its prompt and facts (its world or attachment). */
function refuseHeldOutPrompts(file: string, train: readonly Question[], heldOut: readonly Question[]): void {
  const contentOf = ({ prompt, facts }: Question) => canonicalJson({ prompt, facts });
  const held = new Set(heldOut.map(contentOf));
  const both = train.find((question) => held.has(contentOf(question)));
  if (both === undefined) return;
  throw new MgrpoError(
    "benchmark-damaged",
    `${file}: its question '${both.id.replace(/^jsonl:/, "")}' is a held-out question of the recipe: held-out questions must not be trained on`,
  );
}

/** Adds the questions of the benchmarks that the suites name. Rejects with `benchmark-damaged`. */
export async function withBenchmarks(
  own: QuestionSet,
  suites: readonly EvaluationSuite[],
  reader?: Reader,
): Promise<QuestionSet> {
  const loaded: [string, SuiteQuestions][] = [];
  for (const suite of suites) {
    const { name, benchmark, data } = suite;
    if (benchmark === undefined || data === undefined) continue;
    const set = await LOADERS[benchmark]({ ...suite, data }, reader);
    const criteria = JUDGED_BENCHMARKS.includes(benchmark) && { criteria: criteriaOf(benchmark, suite.criteria) };
    loaded.push([name, { ...set, ...criteria }]);
  }
  if (loaded.length === 0) return own;
  requireUniqueIds([...own.train, ...own.heldOut, ...loaded.flatMap(([, { questions }]) => questions)]);
  return { ...own, suites: Object.fromEntries(loaded) };
}

function criteriaOf(benchmark: Benchmark, file: string | undefined): string {
  const path = file ?? fileURLToPath(new URL(`criteria/${benchmark}.md`, import.meta.url));
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new MgrpoError("benchmark-damaged", `${path}: the criteria of ${benchmark} cannot be read`, { cause });
  }
  // Placeholders of an official prompt: their values are sent separately.
  return text
    .replaceAll("{question}", "(the field `question`)")
    .replace(/\{(?:correct_answer|reference|answer)\}/g, "(the field `reference`)")
    .replace(/\{(?:response|prediction|pred)\}/g, "(the field `answer`)");
}

/** An id identifies a question to sub-agents, so equal ids must mean equal questions. */
function requireUniqueIds(questions: readonly Question[]): void {
  const known = new Map<string, string>();
  for (const question of questions) {
    const text = canonicalJson(question);
    if ((known.get(question.id) ?? text) !== text) {
      throw new MgrpoError(
        "benchmark-damaged",
        `two files have different questions with the same id '${question.id}': rename one`,
      );
    }
    known.set(question.id, text);
  }
}
