/** @file `mgrpo eval --suite`: a team on a benchmark, the results folder, submission files, and which options, files and suites are refused. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test, vi } from "vitest";
import { categoriesOf } from "../../adapters/benchmarks/categories.ts";
import { loadGaia } from "../../adapters/benchmarks/gaia.ts";
import { withBenchmarks } from "../../adapters/benchmarks/load.ts";
import { submissionFiles } from "../../adapters/benchmarks/submission.ts";
import { loadWebWalkerQa } from "../../adapters/benchmarks/webwalkerqa.ts";
import { loadXbench } from "../../adapters/benchmarks/xbench.ts";
import { checkRunQuestions } from "../../cli/questions.ts";
import { chooseSuite } from "../../cli/suite/choose.ts";
import { evaluateSuite } from "../../cli/suite/evaluate.ts";
import { evaluationId } from "../../cli/suite/identity.ts";
import { SuiteReport } from "../../cli/suite/suite-report.ts";
import { RunConfig } from "../../core/contracts/config.ts";
import type { Conversation } from "../../core/contracts/conversation.ts";
import { decrypt, encrypt } from "../../core/contracts/encryption.ts";
import { EvaluationSuite } from "../../core/contracts/evaluation-suite.ts";
import type { Question } from "../../core/contracts/question.ts";
import type { Recipe } from "../../core/recipe.ts";
import { teamConfig } from "../fakes/scripted-team.ts";
import { projectOfFile, RELAY } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const folder = projectOfFile();
const fixture = (name: string) => resolve(import.meta.dirname, "../fixtures/benchmarks", name);

const gaia = () => loadGaia(fixture("gaia"), "all", undefined);

const conversation = (answer: string | null): Conversation => ({
  ...{ prompt: "?", stop: answer === null ? "malformed" : "answered", fault: null, answer },
  turns: [
    { text: "I look it up.", calls: [], responses: [{ name: "search", text: "found" }] },
    { text: `<answer>${answer}</answer>`, calls: [], responses: [] },
  ],
});
const lines = (text: string | undefined) =>
  (text ?? "")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));

test("GAIA's submission is a file per run; the team's failures have empty answers, and lost questions are left out", async () => {
  const set = await gaia();
  const files = submissionFiles("gaia", set, [
    [conversation("4"), conversation(null), undefined, conversation("1250")],
    [conversation("5")],
  ]);
  expect([...files.keys()]).toEqual(["submission-run1.jsonl", "submission-run2.jsonl"]);
  expect(lines(files.get("submission-run1.jsonl"))).toEqual([
    {
      ...{ task_id: "00000000-0000-4000-8000-000000000001", model_answer: "4" },
      reasoning_trace: "I look it up.\n[search] found\n<answer>4</answer>",
    },
    expect.objectContaining({ task_id: "00000000-0000-4000-8000-000000000002", model_answer: "" }),
    expect.objectContaining({ task_id: "00000000-0000-4000-8000-000000000004", model_answer: "1250" }),
  ]);
  expect(lines(files.get("submission-run2.jsonl"))).toHaveLength(1);
});

test("WebWalkerQA's submission names the question as the benchmark words it; xbench's is encrypted", () => {
  const walker = submissionFiles("webwalkerqa", loadWebWalkerQa(fixture("webwalkerqa.json")), [
    [conversation("On 1 May.")],
  ]);
  expect(lines(walker.get("submission-run1.jsonl"))).toEqual([
    { question: "When does the made-up conference open?", pred: "On 1 May." },
  ]);
  const set = loadXbench(fixture("xbench.csv"));
  const table =
    submissionFiles("xbench", set, [[conversation("乌有城")], [conversation("x")]]).get("submission.csv") ?? "";
  const [header, first] = table.split("\n").map((line) => line.slice(1, -1).split('","'));
  expect(header).toEqual(["id", "response-1", "response-2", "canary"]);
  expect(first?.[0]).toBe("101");
  expect(decrypt(first?.[1] ?? "", set.canary ?? "")).toBe("乌有城");
  expect(table).not.toContain("乌有城");
});

test("xbench's submission is not written without a canary", () => {
  const { questions } = loadXbench(fixture("xbench.csv"));
  expect(() => submissionFiles("xbench", { questions }, [[conversation("x")]])).toThrow(
    expect.objectContaining({ code: "record-damaged" }),
  );
});

test("xbench's submission: an unanswered question has an empty response; one that a run lost has no row", () => {
  const set = loadXbench(fixture("xbench.csv"));
  const runs = [
    [conversation("x"), conversation("y"), conversation(null)],
    [conversation("z"), undefined, conversation("z")],
  ];
  const subset = { ...set, questions: set.questions.slice(0, 3) };
  const table = submissionFiles("xbench", subset, runs).get("submission.csv") ?? "";
  const rows = table.split("\n").slice(1, -1);
  expect(rows.map((row) => row.slice(1, -1).split('","').slice(0, 3))).toEqual([
    ["101", encrypt("x", set.canary ?? ""), encrypt("z", set.canary ?? "")],
    ["103", "", encrypt("z", set.canary ?? "")],
  ]);
});

test("a question's categories are those that the benchmark's authors report", async () => {
  const categories = (benchmark: "gaia" | "webwalkerqa", set: { questions: Parameters<typeof categoriesOf>[1][] }) =>
    set.questions.map((question) => categoriesOf(benchmark, question));
  expect(categories("gaia", await gaia())[3]).toEqual(["level 3"]);
  expect(categories("webwalkerqa", loadWebWalkerQa(fixture("webwalkerqa.json")))[2]).toEqual([
    ...["hard", "zh", "single_source hard"],
  ]);
});

test("an official prompt becomes the judge's criteria, with field names for its placeholders; an empty or unreadable file is refused", async () => {
  const criteria = join(folder, "official.txt");
  writeFileSync(criteria, "Q: {question}\nA: {correct_answer}\nR:{response}\nSay CORRECT.");
  const suite = (changes: object) =>
    EvaluationSuite.parse({ name: "w", benchmark: "webwalkerqa", data: fixture("webwalkerqa.json"), ...changes });
  const own = { train: [], heldOut: [] };
  const criteriaOf = async (changes: object) => (await withBenchmarks(own, [suite(changes)])).suites?.["w"]?.criteria;
  expect(await criteriaOf({ criteria })).toBe(
    "Q: (the field `question`)\nA: (the field `reference`)\nR:(the field `answer`)\nSay CORRECT.",
  );
  expect(await criteriaOf({})).toContain("cot_qa");
  await expect(criteriaOf({ criteria: join(folder, "gone") })).rejects.toThrow(
    /^evaluation\.suites\.w\.criteria: .*gone cannot be read: name a text file, or remove the setting/,
  );
  const empty = join(folder, "empty.txt");
  writeFileSync(empty, " \n");
  await expect(criteriaOf({ criteria: empty })).rejects.toThrow(
    /^evaluation\.suites\.w\.criteria: .*empty\.txt is empty: name a text file, or remove the setting/,
  );
});

test("two files with different questions under one id are refused", async () => {
  const other = join(folder, "other.jsonl");
  writeFileSync(other, '{"id":"sum","prompt":"What is one plus one?","answer":"2"}');
  const suites = [fixture("questions.jsonl"), other].map((data, i) =>
    EvaluationSuite.parse({ name: `s${i}`, benchmark: "jsonl", data }),
  );
  await expect(withBenchmarks({ train: [], heldOut: [] }, suites)).rejects.toThrow(
    /questions\.jsonl and .*other\.jsonl have different questions with the id 'sum': rename one/,
  );
});

const DECLARED = [
  { name: "greedy", temperature: 0 },
  { name: "mine", benchmark: "gaia", data: "d", questions: 7 },
].map((suite) => EvaluationSuite.parse(suite));
const [GREEDY, MINE] = DECLARED;

test.each([
  [["gaia", {}], /--suite gaia needs --data <path>: docs\/benchmarks\.md/],
  [
    ["hle", {}],
    /--suite hle: give one of gaia, xbench, webwalkerqa, reasoning-gym, relay, greedy, mine, or a file of questions/,
  ],
  [["greddy", {}], /did you mean 'greedy'\?/],
  [["greedy", { data: "d" }], /--suite greedy has its own questions: leave out --data/],
  [["relay", { data: "d" }], /--suite relay has its own questions: leave out --data/],
  [["q.jsonl", { data: "d" }], /--suite q\.jsonl is the data itself: leave out --data/],
] as const)("the error for --suite %j says what to do instead", ([name, options], line) => {
  expect(() => chooseSuite(name, "relay", DECLARED, options)).toThrow(line);
});

test("a suite of the run or recipe is evaluated as declared; options may change its data and runs", () => {
  expect(chooseSuite("greedy", "relay", DECLARED, {})).toEqual(GREEDY);
  expect(chooseSuite("mine", "relay", DECLARED, { data: "e", runs: 5 })).toEqual({ ...MINE, data: "e", runs: 5 });
});

test("--suite with the recipe's name means its held-out questions, run three times by default; with a file, the file's questions", () => {
  expect(chooseSuite("relay", "relay", DECLARED, {})).toEqual({ name: "held-out", runs: 3 });
  expect(chooseSuite("./My Questions-2.jsonl", "relay", DECLARED, { runs: 1 })).toEqual({
    ...{ name: "my-questions-2", benchmark: "jsonl", data: "./My Questions-2.jsonl", runs: 1 },
  });
});

test("the suite of a file has a valid name, however long the file's name is", () => {
  const suite = chooseSuite(`${"long-".repeat(20)}name.jsonl`, "relay", DECLARED, {});
  // 12 * 5 + 3 = 63 characters.
  expect(EvaluationSuite.parse(suite).name).toBe(`${"long-".repeat(12)}lon`);
});

test("a question whose kind is the name of its level is counted once in that category", () => {
  const question = { id: "q", kind: "level 2", level: 2, prompt: "?", answer: "!", facts: {} };
  expect(categoriesOf("jsonl", question)).toEqual(["level 2"]);
  expect(categoriesOf("jsonl", { ...question, level: 1 })).toEqual(["level 1", "level 2"]);
});

test("the command writes scores by level, the result and submissions to a folder; repeated, it only reports", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const file = join(folder, "own.jsonl");
  const words = ["amber", "birch", "cedar", "delta"];
  const tasks = words.map((word, i) => ({
    id: word,
    prompt: `What follows ${word}?`,
    answer: words[i + 1] ?? "ember",
    level: 1 + (i % 2),
  }));
  writeFileSync(file, tasks.map((task) => `${JSON.stringify(task)}\n`).join(""));
  const results = join(folder, "evaluations");
  const models = join(folder, "models");
  mkdirSync(results);
  const command = ["eval", models, "--recipe", RELAY, "--suite", file, "--runs", "2", "--results", results];
  const [first] = await printedJson(...command);
  const [resultFolder] = readdirSync(results);
  expect(resultFolder).toMatch(/^models-own-[0-9a-f]{12}$/);
  const at = join(results, resultFolder ?? "");
  const report = SuiteReport.parse(JSON.parse(readFileSync(join(at, "result.json"), "utf8")));
  expect(first).toEqual({ ...report, folder: at });
  expect(report).toMatchObject({ kind: "evaluation", suite: "own", benchmark: "jsonl", n: 8, lost: [] });
  expect(report.groups.map(({ group, n }) => [group, n])).toEqual([
    ["level 1", 4],
    ["question", 8],
    ["level 2", 4],
  ]);
  const submitted = lines(readFileSync(join(at, "submission-run2.jsonl"), "utf8"));
  expect(submitted.map(({ id }) => id)).toEqual(words.map((word) => `jsonl:${word}`));

  const logged = readFileSync(join(at, "eval.log"), "utf8");
  expect(await printedJson(...command)).toEqual([first]);
  expect(readdirSync(results)).toEqual([resultFolder]);
  expect(readFileSync(join(at, "eval.log"), "utf8")).toBe(logged);
  vi.restoreAllMocks();
});

test("an evaluation keeps its folder when its question files move or its agents' prices change; other questions, settings or tools begin another", async () => {
  const agent = (usd: number) => ({
    ...{ policy: "openai:http://127.0.0.1:1", model: "planner", trained: false },
    endpoint: { usdPerMillionTokens: { input: usd, output: usd } },
  });
  const config = (settings: object) =>
    RunConfig.parse({
      ...{ run: "eval", recipe: "deep-research", seed: 1, arm: "single-agent", steps: 1, main: "main" },
      ...{ agents: { main: agent(1) }, evaluation: { suites: [{ name: "held-out" }] } },
      ...{ questions: { train: "a/train.jsonl", heldOut: "a/held-out.jsonl" }, ...settings },
    });
  const question = (id: string) => ({ id, kind: "any", level: 1, prompt: "?", answer: "!", facts: {} });
  const idOf = (settings: object, id = "1") =>
    evaluationId(config(settings), new Map(), { train: [], heldOut: [question(id)] });
  const first = await idOf({});
  expect(await idOf({ questions: { train: "b/train.jsonl", heldOut: "b/held-out.jsonl" } })).toBe(first);
  expect(await idOf({ agents: { main: agent(2) } })).toBe(first);
  expect(await idOf({}, "2")).not.toBe(first);
  expect(await idOf({ seed: 2 })).not.toBe(first);
  expect(await idOf({ tools: { search: { backend: "serper", usdPerCall: 2 } } })).not.toBe(first);
});

test.each([
  [1, 1, "suite 'all' asks nothing: it skips 1, and its set has 1 question: lower skip"],
  [0, 0, "suite 'all' asks nothing: its set has no question that can be asked"],
])("a suite that skips %d of %d questions is refused, not said to lack reference answers", async (skip, n, message) => {
  const question = (id: string) => ({ id, kind: "any", level: 1, prompt: "?", answer: "!", facts: {} });
  const heldOut = Array.from({ length: n }, (_, i) => question(`held-out-${i}`));
  const questions = () => ({ train: [question("trained")], heldOut });
  const recipe: Recipe = { name: "small", config: () => expect.fail(), questions };
  const config = teamConfig({ evaluation: { suites: [{ name: "all", skip }] } });
  const [suite] = config.evaluation.suites;
  const asked = evaluateSuite("any", { config, suite: suite as EvaluationSuite, recipe }, join(folder, "empty"), {});
  await expect(asked).rejects.toMatchObject({ code: "config-invalid", message });
});

test("a run is refused if a suite skips all questions of its set, but not if the recipe has no held-out questions", () => {
  const question = { id: "held-out-0", kind: "any", level: 1, prompt: "?", answer: "!", facts: {} };
  const config = (skip: number) => teamConfig({ evaluation: { suites: [{ name: "all", skip }] } });
  const refusing = (skip: number, heldOut: readonly Question[]) => () =>
    checkRunQuestions(config(skip), { train: [{ ...question, id: "trained", prompt: "!" }], heldOut: [...heldOut] });
  expect(refusing(1, [question])).toThrow(
    "suite 'all' asks nothing: it skips 1, and its set has 1 question: lower skip",
  );
  expect(refusing(0, [question])).not.toThrow();
  expect(refusing(0, [])).not.toThrow();
});

test.each<[NonNullable<EvaluationSuite["benchmark"]>, string | undefined, string | undefined]>([
  [
    "reasoning-gym",
    "suite 'own': 1 of 2 questions are also training questions (such as 'asked-0'): remove them",
    undefined,
  ],
  [
    "jsonl",
    undefined,
    "suite 'own': 1 of 2 questions are also training questions (such as 'asked-0'), so its score is not held-out",
  ],
])(
  "a benchmark that asks a copy of a training question is refused; for a user's own file, a line says that its score is not held-out: %s",
  (benchmark, refusal, line) => {
    const question = (id: string, prompt: string) => ({ id, kind: "any", level: 1, prompt, answer: "!", facts: null });
    const asked = [question("asked-0", "What follows?"), question("asked-1", "What else?")];
    const config = teamConfig({ evaluation: { suites: [{ name: "own", benchmark, data: "file" }] } });
    const set = { train: [question("trained", "What follows?")], heldOut: [], suites: { own: { questions: asked } } };
    const written = vi.spyOn(console, "error").mockReturnValue();
    const check = () => checkRunQuestions(config, set);
    if (refusal === undefined) check();
    else expect(check).toThrow(refusal);
    expect(written.mock.calls).toEqual(line === undefined ? [] : [[line]]);
    written.mockRestore();
  },
);
