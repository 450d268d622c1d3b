/** @file What the arms of a comparison start from: settings of second stages, what the summary says about them, and what is refused. */
import { expect, test } from "vitest";
import { type CompareOptions, entriesOf, planRun } from "../../cli/compare/plan.ts";
import { checkStart, describeStart } from "../../cli/compare/start.ts";
import { recipe } from "../fixtures/relay/recipe.ts";

const options: CompareOptions = {
  ...{ arms: ["mgrpo"], seeds: 2, jobs: 1, vary: [], set: [], from: [], name: "c", mixed: false },
};
const source = { recipe, recipeName: "relay", options };

const from = ["stage1", "main-only=other"];
const start = { from, questions: "hard.jsonl" };

test("an arm's agents start from a run's checkpoints, on the questions of a file; held-out questions are the recipe's", () => {
  const [own = expect.fail(), frozen = expect.fail()] = entriesOf({ arms: ["mgrpo", "main-only"], vary: [] });
  const named = { ...source, options: { ...options, ...start } };
  const { config } = planRun(named, own, 1, undefined);
  expect(config.questions).toEqual({ train: "hard.jsonl", heldOut: "recipe" });
  expect(config.agents["main"]?.model).toBe("runs/stage1/checkpoints/main");
  expect(config.agents["searcher"]).toMatchObject({ model: "runs/stage1/checkpoints/searcher", trained: true });
  const other = planRun(named, frozen, 1, 9).config;
  expect(other.agents["searcher"]).toMatchObject({ model: "runs/other/checkpoints/searcher", trained: false });
});

test("what --from and --questions decide cannot be set or varied", () => {
  const [own = expect.fail()] = entriesOf(options);
  for (const set of [
    "agents.main.model=x",
    'agents.main={"model":"x","delegates":["searcher"]}',
    "questions.train=x.jsonl",
  ]) {
    const named = { ...source, options: { ...options, ...start, set: [set] } };
    expect(() => planRun(named, own, 1, undefined)).toThrow(/cannot be set or varied.*--from and --questions/);
    expect(() =>
      planRun({ ...named, options: { ...options, set: [set, "questions.train=y"] } }, own, 1, 9),
    ).not.toThrow();
  }
});

test("the summary says what each arm starts from: frozen sub-agents are untrained, or trained by the shared run", () => {
  expect(describeStart(["mgrpo", "main-only"], { from: [] })).toBe(
    "mgrpo: the recipe's base models; main-only: the recipe's base models, with sub-agents frozen untrained",
  );
  expect(describeStart(["mgrpo", "main-only"], { from: ["s"] })).toBe(
    "mgrpo: the checkpoints of run s; main-only: the checkpoints of run s, with sub-agents frozen as that run trained them",
  );
});

test.each([
  [["a", "b"], /--from b: another run is given for all arms/],
  [["mgrpo=a", "mgrpo=b"], /--from mgrpo=b: mgrpo has a run already/],
  [["single-agent=a"], /--arms has no 'single-agent'; it has mgrpo, main-only/],
  [["mgrpo=a"], /arm main-only has no run to start from: add --from main-only=<run>/],
  [["gone"], /no run 'gone'/],
] as const)("refused: --from %j", (given, line) => {
  expect(() => checkStart(recipe, ["mgrpo", "main-only"], { from: given })).toThrow(line);
});
