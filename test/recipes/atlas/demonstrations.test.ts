/** @file Demonstrations: well formed by the protocol's own parser, faulty as often as declared, never of a held-out question. */
import { expect, test } from "vitest";
import { RunConfig } from "../../../core/contracts/config.ts";
import { parseTurn } from "../../../core/conversation/parse-turn.ts";
import { openToolbox } from "../../../core/conversation/toolbox.ts";
import { stream } from "../../../core/random.ts";
import type { Demonstration } from "../../../core/recipe.ts";
import { demonstrationsOf } from "../../../recipes/atlas/demonstrations/demonstrations.ts";
import { PLANNER_ERROR_RATES, SEARCHER_ERROR_RATES } from "../../../recipes/atlas/demonstrations/error-rates.ts";
import { delegatedNames, NAMES_SHARE } from "../../../recipes/atlas/demonstrations/names.ts";
import { factsOf } from "../../../recipes/atlas/questions/facts.ts";
import { parseTask, termsOf } from "../../../recipes/atlas/questions/look-up.ts";
import { questionSet } from "../../../recipes/atlas/questions/questions.ts";
import { recipe as atlas } from "../../../recipes/atlas/recipe.ts";
import { tools } from "../../../recipes/atlas/tools.ts";
import { worldOf } from "../../../recipes/atlas/world/world.ts";
import { recipe as twoSubs } from "../../../recipes/atlas-two-subs/recipe.ts";
import { answerTurn } from "../../../recipes/small-models/turns.ts";

const COUNT = 4000;

function sample(agent: string, count = COUNT, seed = 5): Demonstration[] {
  const demonstrations: Demonstration[] = [];
  for (const demonstration of demonstrationsOf(agent, seed)) {
    if (demonstrations.push(demonstration) === count) break;
  }
  return demonstrations;
}

const isPractice = ({ prompt }: Demonstration) => prompt.startsWith("Names: ");
const mixed = { main: sample("main"), searcher: sample("searcher"), single: sample("single", 500) };
const main = mixed.main.filter((each) => !isPractice(each));
const searcher = mixed.searcher.filter((each) => !isPractice(each));

test.each([
  ["main", atlas, "mgrpo", "main"],
  ["main-of-two", twoSubs, "mgrpo", "main"],
  ["searcher", atlas, "mgrpo", "searcher"],
  ["single", atlas, "single-agent", "main"],
  ["shared", atlas, "shared-policy", "main"],
] as const)("%s: every turn parses, within the limits; only the last one answers", (name, recipe, arm, own) => {
  const { agents } = RunConfig.parse({ ...recipe.config(arm, () => undefined), run: "test", recipe: recipe.name, arm });
  const toolboxes = new Map(
    Object.entries(agents).map(([agent, config]) => [agent, openToolbox(agent, config, tools)]),
  );
  for (const { agent = own, turns } of sample(name, 500)) {
    const [config, toolbox] = [agents[agent], toolboxes.get(agent)];
    if (!config || !toolbox) throw new Error(agent);
    expect(turns.length).toBeLessThanOrEqual(config.limits.turns);
    turns.forEach(({ text, responses }, i) => {
      const parsed = parseTurn(text, toolbox, config.limits.calls);
      expect(parsed.kind, text).toBe(i === turns.length - 1 ? "answer" : "calls");
      expect(responses).toHaveLength(parsed.kind === "calls" ? parsed.calls.length : 0);
      for (const response of responses) expect(response.length).toBeLessThanOrEqual(config.limits.responseCharacters);
    });
  }
});

test("in atlas-two-subs, the planner's demonstrations delegate to both sub-agents, whose own demonstrations are the same", () => {
  const of = (agent: string) => [...(twoSubs.demonstrations?.(agent, "mgrpo", 5) ?? [])];
  const texts = of("main").flatMap(({ turns }) => turns.map(({ text }) => text));
  const called = new Set(texts.flatMap((text) => /"agent":\s*"(\w+)"/.exec(text)?.[1] ?? []));
  expect([...called].sort()).toEqual(["finder", "searcher"]);
  expect(of("finder").length).toBeGreaterThan(0);
  expect(of("finder")).toEqual(of("searcher"));
});

test("one model for both roles gets about as many demonstrations of the planner as of the searcher, each with its own agent", () => {
  const shared = sample("shared", 1000);
  expectRate(shared, ({ agent }) => agent === "main", 0.5);
  const delegates = ({ turns }: Demonstration) => turns.some(({ text }) => text.includes('"name": "delegate"'));
  const searches = ({ turns }: Demonstration) => turns.some(({ text }) => text.includes('"name": "search"'));
  expect(shared.filter(delegates).every(({ agent }) => agent === "main")).toBe(true);
  expect(shared.filter(searches).every(({ agent }) => agent === "searcher")).toBe(true);
});

test("no demonstration asks a held-out question", () => {
  const heldOut = new Set(questionSet(1).heldOut.map(({ prompt }) => prompt));
  for (const { prompt } of [...mixed.main, ...mixed.single]) expect(heldOut.has(prompt), prompt).toBe(false);
});

test("demonstrations are a function of the seed", () => {
  expect(sample("main", 50)).toEqual(mixed.main.slice(0, 50));
  expect(sample("main", 50, 6)).not.toEqual(mixed.main.slice(0, 50));
});

test("practice with names asks for nothing: the names go into the call, and into the answer", () => {
  expectRate(mixed.main, isPractice, NAMES_SHARE);
  for (const { prompt, turns } of Object.values(mixed).flat().filter(isPractice)) {
    const names = prompt.slice("Names: ".length);
    expect(parseTask(names)).toBeUndefined();
    expect(turns.map(({ text }) => text.includes(names))).toEqual([true, true]);
    expect(turns[1]?.text).toBe(answerTurn(names));
  }
});

const practices = (count: number) => {
  const random = stream(5, "names");
  return Array.from({ length: count }, () =>
    delegatedNames("searcher", worldOf(101), random).prompt.slice("Names: ".length),
  );
};
const heldOutLookUps = questionSet(1).heldOut.flatMap(({ facts }) =>
  factsOf({ facts }).lookUps.flatMap(({ task }) => parseTask(task) ?? []),
);

test("practice covers all names of held-out look-ups", () => {
  const practiced = new Set(practices(6000).flatMap((names) => names.split(", ")));
  const names = heldOutLookUps.flatMap(termsOf);
  expect(names.length).toBeGreaterThan(400);
  expect(names.filter((name) => !practiced.has(name))).toEqual([]);
});

test("no practice consists of the terms of a held-out look-up, in any order", () => {
  const key = (names: readonly string[]) => [...names].sort().join(", ");
  const heldOut = new Set(heldOutLookUps.map((lookUp) => key(termsOf(lookUp))));
  expect(practices(40_000).filter((names) => heldOut.has(key(names.split(", "))))).toEqual([]);
});

/** Expects the share of demonstrations for which `holds` is true to be within four standard errors of `rate`. */
function expectRate(
  demonstrations: readonly Demonstration[],
  holds: (demonstration: Demonstration) => boolean,
  rate: number,
) {
  const n = demonstrations.length;
  expect(n).toBeGreaterThan(100);
  expect(Math.abs(demonstrations.filter(holds).length / n - rate)).toBeLessThan(4 * Math.sqrt((rate * (1 - rate)) / n));
}

const textOf = ({ turns }: Demonstration, turn: number) => turns[turn]?.text ?? "";
const guessed = (demonstration: Demonstration) => demonstration.turns.length === 1;
const lookedUp = (prompt: RegExp) => main.filter((each) => prompt.test(each.prompt) && !guessed(each));

test("the planner guesses, drops constraints, skips hops and does not calculate as often as declared", () => {
  expectRate(main, guessed, PLANNER_ERROR_RATES.guess);
  const { dropConstraint, noCalculation, skipHop } = PLANNER_ERROR_RATES;
  const delegatesOne = (each: Demonstration) => !/task": "country with [^"]*, /.test(textOf(each, 0));
  expectRate(lookedUp(/^Which country borders .* uses/), delegatesOne, dropConstraint.currency);
  expectRate(lookedUp(/^Which country borders .* speaks/), delegatesOne, dropConstraint.language);
  expectRate(lookedUp(/^Which country borders .* and borders/), delegatesOne, dropConstraint.borders);
  const noCalculate = (each: Demonstration) => !textOf(each, 1).includes("calculate");
  expectRate(lookedUp(/^How much larger/), noCalculate, noCalculation["-"]);
  expectRate(lookedUp(/^What is the total/), noCalculate, noCalculation["+"]);
  expectRate(lookedUp(/^What is the area of the country that has/), (each) => each.turns.length === 2, skipHop.area);
});

test("the searcher drops terms and opens wrong pages as often as declared", () => {
  const two = (field: string) =>
    searcher.filter(({ prompt }) => new RegExp(`^country with .*, ${field} `).test(prompt));
  const oneTerm = (each: Demonstration) =>
    !textOf(each, 0).includes(", ".concat(each.prompt.split(/, \w+ /)[1] ?? "?"));
  expectRate(two("currency"), oneTerm, SEARCHER_ERROR_RATES.dropTerm.currency);
  expectRate(two("language"), oneTerm, SEARCHER_ERROR_RATES.dropTerm.language);
  const facts = searcher.filter(({ prompt, turns }) => / of /.test(prompt) && /\n/.test(turns[0]?.responses[0] ?? ""));
  const wrongTitle = (each: Demonstration) =>
    !textOf(each, 1).includes(`"${each.turns[0]?.responses[0]?.split("\n")[0]}"`);
  expectRate(facts, wrongTitle, SEARCHER_ERROR_RATES.wrongTitle);
});

test("every error rate is below 0.7, so that sampling also finds the correct decision", () => {
  const rates = Object.values({ ...PLANNER_ERROR_RATES, ...SEARCHER_ERROR_RATES }).flatMap((rate) =>
    typeof rate === "number" ? [rate] : Object.values(rate),
  );
  for (const rate of rates) expect(rate).toBeLessThan(0.7);
});
