/**
 * @file A user's recipe, checked: an exception in its functions, a promise in place of a value, or a field of the wrong kind is reported as an
 * error in the user's code, in one line that says where. A note is for readers only: if it fails, they see why in its place. What `questions`
 * returns is checked where a run's questions are read (adapters/benchmarks/load.ts).
 */
import type { Arm } from "../core/contracts/config.ts";
import { parse } from "../core/contracts/parse.ts";
import { Question } from "../core/contracts/question.ts";
import { errorText, isMgrpoError, MgrpoError } from "../core/errors.ts";
import type { BaseModel, CaseStudy, Demonstration, Recipe, RecipeConfig, RecipeDefinition } from "../core/recipe.ts";
import { whatThrew } from "./checked-rewards.ts";

const FUNCTIONS = ["ask", "note", "demonstrations"] as const;
const LISTS = ["caseStudies", "baseModels"] as const;

/**
 * `file`: the recipe's file, as messages name it. Throws `recipe-invalid`. So do the functions of the returned recipe, except `note`, unless
 * the recipe threw an MgrpoError, which is kept. `note` never throws.
 */
export function checkedRecipe(recipe: RecipeDefinition, file: string): Recipe {
  refuseWrongKinds(recipe, file);
  // A recipe may be an instance of a class, whose methods need it as `this`: no copy has its private fields.
  const { name, ask, note, caseStudies, baseModels, demonstrations } = recipe;
  return {
    name,
    config: (arm, chosen) => {
      if (typeof recipe.config !== "function") return settingsIn(recipe.config, file, "config");
      const run = recipe.config.bind(recipe, arm, chosen);
      return settingsIn(call(file, "config()", run), file, "config()");
    },
    questions: (seed) => attributed(file, "questions()", () => recipe.questions(seed)),
    ...(ask && { ask: (prompt: string) => askedIn(call(file, "ask()", ask.bind(recipe, prompt)), file) }),
    ...(note && { note: (question: Question) => noteOf(file, note.bind(recipe, question)) }),
    ...(caseStudies && { caseStudies: caseStudies.map((study) => checkedStudy(study, file)) }),
    ...(baseModels && { baseModels: baseModels.map((base) => checkedBase(base, file)) }),
    ...(demonstrations && {
      demonstrations: (agent: string, arm: Arm, seed: number) =>
        checkedDemonstrations(demonstrations.bind(recipe, agent, arm, seed), file, "demonstrations()"),
    }),
  };
}

/** Catches what the compiler would, in a recipe that is not type-checked. */
function refuseWrongKinds(recipe: RecipeDefinition, file: string): void {
  refusePromise(recipe, file, "'recipe'");
  if (typeof recipe !== "object" || recipe === null)
    throw invalid(file, "'recipe' is not an object: export one with name, config and questions");
  if (typeof recipe.name !== "string" || recipe.name === "") throw invalid(file, "'recipe' has no name: give it one");
  for (const name of FUNCTIONS)
    if (recipe[name] !== undefined && typeof recipe[name] !== "function")
      throw invalid(file, `'${name}' is not a function`);
  for (const name of LISTS) {
    const list: unknown = recipe[name] ?? [];
    if (!Array.isArray(list)) throw invalid(file, `'${name}' is not an array`);
    for (const [i, one] of list.entries())
      if (typeof one !== "object" || one === null) throw invalid(file, `'${name}[${i}]' is not an object`);
  }
  refuseWrongStudies(recipe.caseStudies ?? [], file);
}

/** A study's scores are kept under its name. */
function refuseWrongStudies(studies: readonly CaseStudy[], file: string): void {
  const names = new Set<string>();
  for (const [i, { name, expected, checks }] of studies.entries()) {
    if (typeof name !== "string" || typeof expected !== "string" || typeof checks !== "function")
      throw invalid(file, `'caseStudies[${i}]' needs the strings 'name' and 'expected', and a function 'checks'`);
    if (names.has(name)) throw invalid(file, `two case studies have the name '${name}': give each its own`);
    names.add(name);
  }
}

function settingsIn(config: unknown, file: string, what: string): RecipeConfig {
  refusePromise(config, file, what);
  if (typeof config === "object" && config !== null && !Array.isArray(config)) return config as RecipeConfig;
  const isNothing = config === undefined || config === null;
  const found = isNothing ? String(config) : Array.isArray(config) ? "an array" : `a value of type ${typeof config}`;
  throw invalid(file, `${what} is ${found}: give an object with steps and agents, or a function that returns one`);
}

const askedIn = (question: Question, file: string): Question =>
  parse(Question, question, `${file}: the question that ask() returned`, "recipe-invalid");

const checkedStudy = (study: CaseStudy, file: string): CaseStudy => ({
  ...study,
  checks(question, rollout) {
    const what = `case study '${study.name}': checks() for question '${question.id}'`;
    const checks: unknown = call(file, what, () => study.checks(question, rollout));
    if (Array.isArray(checks) && checks.every((check) => typeof check === "boolean")) return checks;
    throw invalid(file, `${what} did not return a list of booleans: return one, empty if there is nothing to check`);
  },
});

function checkedBase(base: BaseModel, file: string): BaseModel {
  const what = `the demonstrations of base model '${base.folder}'`;
  return {
    ...base,
    files: () => call(file, `files() of base model '${base.folder}'`, () => base.files()),
    demonstrations: () => checkedDemonstrations(() => base.demonstrations(), file, what),
  };
}

function* checkedDemonstrations(
  open: () => Iterable<Demonstration>,
  file: string,
  what: string,
): Generator<Demonstration> {
  try {
    yield* call(file, what, open);
  } catch (cause) {
    throw faultOf(cause, file, what);
  }
}

/** What the user's function returns. A promise is refused. */
function call<T>(file: string, what: string, run: () => T): T {
  const returned = attributed(file, what, run);
  refusePromise(returned, file, what);
  return returned;
}

/** What `run` returns. An exception becomes the recipe's own error. */
function attributed<T>(file: string, what: string, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    throw faultOf(cause, file, what);
  }
}

/** @param what a value of the recipe, or a call of one of its functions. */
function refusePromise(value: unknown, file: string, what: string): void {
  if (!(value instanceof Promise)) return;
  // Its rejection must not end the process.
  value.catch(() => {});
  const found = what.endsWith("()") ? `${what} returned a promise` : `${what} is a promise`;
  throw invalid(file, `${found}: await it where the module loads, outside of any function`);
}

const faultOf = (cause: unknown, file: string, what: string): MgrpoError =>
  isMgrpoError(cause) ? cause : invalid(file, `${what} ${whatThrew(file, cause)}`, cause);

const invalid = (file: string, fault: string, cause?: unknown): MgrpoError =>
  new MgrpoError("recipe-invalid", `${file}: ${fault}`, { cause });

function noteOf(file: string, run: () => string | undefined): string | undefined {
  try {
    return call(file, "note()", run);
  } catch (error) {
    return `the recipe's note failed: ${errorText(error)}`;
  }
}
