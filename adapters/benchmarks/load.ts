/**
 * @file The questions of a run: the recipe's or the user's, and those of its benchmark suites. Files are read when the run starts, and their
 * content is stored with it.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { READ_ATTACHMENT } from "../../core/contracts/attachment.ts";
import type { RunConfig } from "../../core/contracts/config.ts";
import type { Benchmark, EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import { needsJudge } from "../../core/contracts/evaluation-suite.ts";
import { WrittenQuestionId } from "../../core/contracts/names.ts";
import { canonicalJson, parse } from "../../core/contracts/parse.ts";
import {
  type Question,
  type QuestionFiles,
  QuestionSet,
  RECIPE_QUESTIONS,
  type SuiteQuestions,
} from "../../core/contracts/question.ts";
import { deepFreeze } from "../../core/deep-freeze.ts";
import { isMgrpoError, MgrpoError } from "../../core/errors.ts";
import type { Recipe } from "../../core/recipe.ts";
import { withFieldNames } from "../judges/criteria.ts";
import { openReader, type Reader } from "../tools/documents/reader.ts";
import { contentOf, copiesOf } from "./copies.ts";
import { loadGaia } from "./gaia.ts";
import { loadJsonl } from "./jsonl.ts";
import { loadReasoningGym } from "./reasoning-gym.ts";
import { loadWebWalkerQa } from "./webwalkerqa.ts";
import { loadXbench } from "./xbench.ts";

type BenchmarkSuite = EvaluationSuite & { readonly data: string };
type Loader = (suite: BenchmarkSuite, reader: Reader | undefined) => SuiteQuestions | Promise<SuiteQuestions>;

const LOADERS: Record<Benchmark, Loader> = {
  gaia: ({ data, attachments = "readable" }, reader) => loadGaia(data, attachments, reader),
  xbench: ({ data }) => loadXbench(data),
  webwalkerqa: ({ data }) => loadWebWalkerQa(data),
  "reasoning-gym": ({ data }) => loadReasoningGym(data),
  jsonl: ({ data }) => loadJsonl(data),
};

type QuestionSources = Pick<RunConfig, "seed" | "questions" | "evaluation" | "agents">;

/** All questions of a run, frozen. Rejects with `benchmark-damaged`, or with `recipe-invalid` for a fault in the recipe's own questions. */
export async function questionsOf(
  recipe: Pick<Recipe, "name" | "questions">,
  { seed, questions, evaluation, agents }: QuestionSources,
): Promise<QuestionSet> {
  const own = questions ? ownQuestions(questions, recipe, seed) : recipeQuestions(recipe, seed);
  const needsReader = Object.values(agents).some(({ tools }) => tools.includes(READ_ATTACHMENT));
  const reader = needsReader ? openReader() : undefined;
  const all = withBenchmarks(own, evaluation.suites, reader, questions).finally(() => reader?.close());
  return deepFreeze(await all);
}

function recipeQuestions(recipe: Pick<Recipe, "name" | "questions">, seed: number): QuestionSet {
  const refuse = (fault: string, cause?: unknown): never => {
    throw new MgrpoError("recipe-invalid", `recipe '${recipe.name}': ${fault}`, { cause });
  };
  const set = parsedSet(givenQuestions(recipe, seed, refuse), recipe, refuse);
  const all = [...set.train, ...set.heldOut];
  const long = all.find(({ id }) => !WrittenQuestionId.safeParse(id).success);
  if (long) refuse(`the id '${long.id}' takes more than 80 bytes in UTF-8: shorten it`);
  const clash = idClash([{ name: "the recipe", questions: all }]);
  if (clash) refuse(`two different questions have the id '${clash.id}': give each question its own id`);
  const both = trainedAndHeldOut(set);
  if (both !== undefined) refuse(`question '${both}' is trained on and held out: remove it from one of the two sets`);
  const seen = new Set<string>();
  const twice = set.heldOut.find(({ id }) => seen.size === seen.add(id).size);
  if (twice)
    refuse(`question '${twice.id}' is held out twice, and would count twice in each score: remove one of the two`);
  return set;
}

/** The questions, parsed. Also refuses facts that contain themselves, which Zod accepts. */
function parsedSet(
  given: unknown,
  { name }: Pick<Recipe, "name">,
  refuse: (fault: string, cause?: unknown) => never,
): QuestionSet {
  try {
    const set = parse(QuestionSet, given, `questions of recipe '${name}'`, "recipe-invalid");
    JSON.stringify(set);
    return set;
  } catch (error) {
    if (isMgrpoError(error)) throw error;
    return refuse("the facts of a question contain themselves, or are nested too deeply", error);
  }
}

/** What the recipe's function returns, unless it is a promise. */
function givenQuestions(
  recipe: Pick<Recipe, "questions">,
  seed: number,
  refuse: (fault: string, cause?: unknown) => never,
): unknown {
  const given: unknown = recipe.questions(seed);
  if (!(given instanceof Promise)) return given;
  // Its rejection must not end the process.
  given.catch(() => {});
  return refuse("questions() returned a promise: read files with readFileSync, or with await outside the function");
}

/** The id of a question that is in both sets. */
function trainedAndHeldOut({ train, heldOut }: QuestionSet): string | undefined {
  const trained = new Set(train.map(({ id }) => id));
  return heldOut.find(({ id }) => trained.has(id))?.id;
}

function ownQuestions(files: QuestionFiles, recipe: Pick<Recipe, "name" | "questions">, seed: number): QuestionSet {
  const { train: file, heldOut: heldOutFile } = files;
  const { questions: train } = loadJsonl(file);
  if (heldOutFile === RECIPE_QUESTIONS) {
    const { heldOut } = recipeQuestions(recipe, seed);
    refuseHeldOutQuestions(file, train, heldOut, "of the recipe");
    return { train, heldOut };
  }
  if (heldOutFile === undefined) return { train, heldOut: [] };
  const { questions: heldOut } = loadJsonl(heldOutFile);
  requireUniqueIds(ownSources({ train, heldOut }, files));
  const both = trainedAndHeldOut({ train, heldOut });
  if (both !== undefined) {
    throw new MgrpoError(
      "benchmark-damaged",
      `${heldOutFile}: its question '${idInFile(both)}' is also in ${file}: held-out questions must not be trained on`,
    );
  }
  refuseHeldOutQuestions(file, train, heldOut, `in ${heldOutFile}`);
  return { train, heldOut };
}

/**
 * Refuses to train on a copy of a held-out question under another id: the same prompt with the same facts (its world or attachment), or with
 * none, since a copy may leave them out.
 */
function refuseHeldOutQuestions(
  file: string,
  train: readonly Question[],
  heldOut: readonly Question[],
  where: string,
): void {
  const held = new Set(heldOut.flatMap(copiesOf));
  const both = train.find((question) => held.has(contentOf(question)));
  if (both === undefined) return;
  throw new MgrpoError(
    "benchmark-damaged",
    `${file}: its question '${idInFile(both.id)}' is a held-out question ${where}: held-out questions must not be trained on`,
  );
}

/** The id as a file of JSON Lines has it. */
const idInFile = (id: string): string => id.replace(/^jsonl:/, "");

/** Adds the questions of the benchmarks that the suites name. `files`: the user's own question files, if any. Rejects with `benchmark-damaged`. */
export async function withBenchmarks(
  own: QuestionSet,
  suites: readonly EvaluationSuite[],
  reader?: Reader,
  files?: QuestionFiles,
): Promise<QuestionSet> {
  const loaded: [string, SuiteQuestions][] = [];
  const sources = ownSources(own, files);
  for (const suite of suites) {
    const { name, benchmark, data } = suite;
    if (benchmark === undefined || data === undefined) continue;
    const set = await LOADERS[benchmark]({ ...suite, data }, reader);
    const criteria = needsJudge(suite) && { criteria: criteriaOf(suite, benchmark) };
    loaded.push([name, { ...set, ...criteria }]);
    sources.push({ name: data, questions: set.questions });
  }
  if (loaded.length === 0) return own;
  requireUniqueIds(sources);
  return { ...own, suites: Object.fromEntries(loaded) };
}

function criteriaOf({ name, criteria }: EvaluationSuite, benchmark: Benchmark): string {
  const path = criteria ?? fileURLToPath(new URL(`criteria/${benchmark}.md`, import.meta.url));
  const refused = (fault: string, cause?: unknown) =>
    new MgrpoError(
      "benchmark-damaged",
      `evaluation.suites.${name}.criteria: ${path} ${fault}: name a text file, or remove the setting to judge by the criteria that come with ${benchmark}`,
      { cause },
    );
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw refused("cannot be read", cause);
  }
  if (text.trim() === "") throw refused("is empty");
  return withFieldNames(text);
}

/** Questions, and the name of their source. */
interface QuestionSource {
  readonly name: string;
  readonly questions: readonly Question[];
}

function ownSources({ train, heldOut }: QuestionSet, files: QuestionFiles | undefined): QuestionSource[] {
  const heldOutFile = files?.heldOut === RECIPE_QUESTIONS ? undefined : files?.heldOut;
  return [
    { name: files?.train ?? "the recipe", questions: train },
    { name: heldOutFile ?? "the recipe", questions: heldOut },
  ];
}

/** Workers look up a question by its id, so equal ids must mean equal questions. */
function requireUniqueIds(sources: readonly QuestionSource[]): void {
  const clash = idClash(sources);
  if (!clash) return;
  throw new MgrpoError(
    "benchmark-damaged",
    `${clash.names.join(" and ")} have different questions with the id '${idInFile(clash.id)}': rename one, or use them in separate runs`,
  );
}

/** The first id that two different questions share, and the names of their sources. */
function idClash(
  sources: readonly QuestionSource[],
): { readonly id: string; readonly names: readonly string[] } | undefined {
  const known = new Map<string, { readonly text: string; readonly name: string }>();
  for (const { name, questions } of sources) {
    for (const question of questions) {
      const text = canonicalJson(question);
      const first = known.get(question.id);
      if (first && first.text !== text) return { id: question.id, names: [first.name, name] };
      known.set(question.id, { text, name });
    }
  }
  return undefined;
}
