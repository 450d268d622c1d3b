/** @file `mgrpo judge check`, against a fake server: agreement, disagreements and cost; bad labels, and a server that demands payment. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { buildProgram } from "../../cli/program.ts";
import { fails, type Reply, replyWith, startOpenAiServer } from "../fakes/openai-server.ts";
import { referenceVerdict } from "../fakes/scripted-judge.ts";
import { parsedLines, projectOfFile } from "./command-line.ts";
import { printedBy, printedJson } from "./printed.ts";

const folder = projectOfFile();
let reply: (content: string) => Reply;
const server = await startOpenAiServer(({ body }) => reply(body.messages.at(-1)?.content ?? ""));
afterAll(() => server.close());
beforeEach(() => {
  reply = (content) => replyWith(JSON.stringify(referenceVerdict(JSON.parse(content))));
});

const LABELS = [
  { id: "a", question: "Which city?", reference: "Paris", answer: "It is Paris.", correct: true },
  { id: "b", question: "Which city?", reference: "Paris", answer: "London", correct: false },
  { id: "c", question: "Which city?", reference: "Paris", answer: "City of Light", correct: true },
  { id: "d", question: "Which city?", reference: "Paris", answer: "Paris or London", correct: false },
];

const PRICES = 'judge.usdPerMillionTokens={"input":1000,"output":10000}';

function argumentsOf(text: string, set: readonly string[]): string[] {
  const file = join(folder, "labels.jsonl");
  writeFileSync(file, text);
  const settings = set.flatMap((setting) => ["--set", setting]);
  return ["judge", "check", file, "--judge", `openai:${server.url}#judge`, ...settings];
}

const check = (text: string, ...set: string[]) => printedJson(...argumentsOf(text, set));

test("judge check reports the agreement, and each disagreement with the judge's reason", async () => {
  expect(await check(LABELS.map((label) => JSON.stringify(label)).join("\n"), PRICES)).toMatchObject([
    { kind: "disagreement", id: "c", correct: true, judged: false, reason: "compared" },
    { kind: "disagreement", id: "d", correct: false, judged: true },
    {
      ...{ kind: "agreement", n: 4, accuracy: 0.5, kappa: 0 },
      confusion: { correct: { correct: 1, wrong: 1 }, wrong: { correct: 1, wrong: 1 } },
      // 4 * (20 * 1000 + 5 * 10000) / 1,000,000
      cost: { inputTokens: 80, outputTokens: 20, usd: expect.closeTo(0.28, 12) },
    },
  ]);
});

test("a budget, which judge check would not keep, is refused before the judge is asked", async () => {
  await expect(check(JSON.stringify(LABELS[0]), PRICES, "budget.usd=0.01")).rejects.toThrow(
    "--set budget.usd=0.01: judge check does not read budget: the number of labels, judge.votes and judge.maxTokens bound what it costs",
  );
});

test("on expert labels, judge check reports the judge's error against human scores, and each disagreement", async () => {
  // The judge scores a report by its length: 0.5, 0.8, 0.3 and 1.0.
  reply = (content) => {
    const { task, steps, report } = JSON.parse(content) as { task: string; steps: unknown; report: string };
    return replyWith(JSON.stringify({ reason: `${task}: ${JSON.stringify(steps)}`, score: report.length / 10 }));
  };
  const work = (id: string, report: string, score: number) => ({ id, task: "Find it", report, score });
  const steps = [{ said: "I look", responses: [{ tool: "search", text: "found" }] }];
  const labels = [
    work("a", "12345", 0.5),
    work("b", "12345678", 0.7),
    work("c", "123", 0.4),
    work("d", "1234567890", 0.6),
  ];
  expect(await check(labels.map((label) => JSON.stringify({ ...label, steps })).join("\n"))).toEqual([
    { kind: "disagreement", ...labels[3], judged: 1, reason: `Find it: ${JSON.stringify(steps)}` },
    {
      ...{
        kind: "agreement",
        n: 4,
        meanAbsoluteError: expect.closeTo(0.6 / 4, 12),
        meanError: expect.closeTo(0.1, 12),
      },
      // Of x = (-0.05, 0.15, -0.15, 0.05) and y = (-0.15, 0.15, -0.35, 0.35): 0.1 / sqrt(0.05 * 0.29).
      ...{ close: 0.75, correlation: expect.closeTo(0.1 / Math.sqrt(0.05 * 0.29), 12) },
      closeInterval: { low: expect.closeTo(0.3006, 4), high: expect.closeTo(0.9544, 4) },
      // tanh(atanh(0.8305) -+ 1.96)
      correlationInterval: { low: expect.closeTo(-0.6472, 3), high: expect.closeTo(0.9963, 3) },
      cost: { inputTokens: 80, outputTokens: 20, usd: null },
    },
  ]);
});

test("a byte order mark, as editors on Windows write it, is not part of the first label", async () => {
  expect(await check(`\ufeff${JSON.stringify(LABELS[0])}`)).toMatchObject([{ kind: "agreement", n: 1, accuracy: 1 }]);
});

test("--criteria are sent as an evaluation sends them: the names of fields in place of an official prompt's placeholders", async () => {
  const file = join(folder, "official.txt");
  writeFileSync(file, "Is {response} right for {question}? Right is {correct_answer}.");
  await printedJson(...argumentsOf(JSON.stringify(LABELS[0]), []), "--criteria", file);
  const [system] = server.requests.at(-1)?.body.messages ?? [];
  expect(system?.content).toMatch(
    /^Is \(the field `answer`\) right for \(the field `question`\)\? Right is \(the field `reference`\)\.\n/,
  );
});

test("settings of the model that --judge names are used, and checked", async () => {
  const label = JSON.stringify(LABELS[0]);
  const formatAfter = async (...set: string[]) => {
    await check(label, ...set);
    return server.requests.at(-1)?.body.response_format;
  };
  expect(await formatAfter("judge.votes=1")).toMatchObject({ type: "json_schema" });
  expect(await formatAfter("judge.model.json=text", 'judge={"votes":1}')).toBe(undefined);
  await expect(check(label, "judge.model.json=any")).rejects.toThrow("judge.model.json: Invalid option");
});

test("a disagreement has a vote's reason, even if the median lies between two votes because a third failed", async () => {
  const votes = [
    replyWith("I cannot say"),
    ...[0.2, 0.4].map((score) => replyWith(JSON.stringify({ reason: `worth ${score}`, score }))),
  ];
  reply = () => votes.shift() ?? fails(500, "a vote too many");
  const label = { id: "a", task: "Find it", report: "found", score: 1 };
  const [disagreement] = await check(JSON.stringify(label), "judge.votes=3", "judge.temperature=1");
  expect(disagreement).toMatchObject({
    ...{ kind: "disagreement", id: "a", judged: expect.closeTo(0.3, 12) },
    reason: expect.stringMatching(/^worth 0\.[24]$/),
  });
});

test.each([
  ["", /labels\.jsonl: there are no labels; write one object per line/],
  ["\n{", /labels\.jsonl, line 2: not JSON/],
  ['{"task":"?","report":"a","score":2}', /labels\.jsonl, line 1: score: /],
  [`{"task":"?","report":"a","score":1}\n${JSON.stringify(LABELS[0])}`, /labels\.jsonl, line 2: task: /],
  ['{"question":"?","reference":"a","answer":"b"}', /labels\.jsonl, line 1: correct: /],
])(
  "a file without labels or with a bad label is refused; the error for a bad label gives its line: %j",
  async (text, line) => {
    await expect(check(text)).rejects.toThrow(line);
  },
);

test("the error for a judge's reply without a verdict gives the number of the label", async () => {
  reply = (content) =>
    replyWith(content.includes("London") ? "I cannot say" : JSON.stringify(referenceVerdict(JSON.parse(content))));
  await expect(check(`${JSON.stringify(LABELS[0])}\n${JSON.stringify(LABELS[1])}`)).rejects.toMatchObject({
    code: "judge-failed",
    message: expect.stringMatching(/^label 2: /),
  });
});

/** What a check that fails prints, and its error. */
async function checkThatFails(labels: readonly unknown[], ...set: string[]) {
  let error: unknown;
  const output = await printedBy(async () => {
    const args = argumentsOf(labels.map((label) => JSON.stringify(label)).join("\n"), set);
    error = await buildProgram()
      .parseAsync(args, { from: "user" })
      .catch((thrown: unknown) => thrown);
  });
  return { lines: parsedLines(output), error };
}

test("labels without a verdict do not stop the others: what was paid for is shown, then the check fails", async () => {
  reply = (content) =>
    replyWith(/It is|Light/.test(content) ? "I cannot say" : JSON.stringify(referenceVerdict(JSON.parse(content))));
  const { lines, error } = await checkThatFails([LABELS[2], LABELS[1], LABELS[0], LABELS[3]], PRICES);
  expect(lines).toMatchObject([
    { kind: "disagreement", id: "d" },
    // Replies without a verdict cost the same.
    { kind: "agreement", n: 2, accuracy: 0.5, cost: { usd: expect.closeTo(0.28, 12) } },
  ]);
  expect(error).toMatchObject({
    code: "judge-failed",
    message: expect.stringMatching(/^label 1: .* \(1 more without a verdict\)$/),
  });
});

test("an error that concerns every label ends the check, and the verdicts that were given are shown", async () => {
  reply = (content) =>
    /Light/.test(content)
      ? fails(402, "no credit left")
      : replyWith(JSON.stringify(referenceVerdict(JSON.parse(content))));
  const { lines, error } = await checkThatFails(LABELS);
  expect(lines).toMatchObject([
    { kind: "disagreement", id: "d" },
    { kind: "agreement", n: 3 },
  ]);
  expect(error).toMatchObject({ code: "endpoint-refused" });
});

test("a server that demands payment ends the check with an error", async () => {
  reply = () => fails(402, "no credit left");
  await expect(check(JSON.stringify(LABELS[0]))).rejects.toMatchObject({
    code: "endpoint-refused",
    message: expect.stringContaining("requires payment"),
  });
});

test("the error for a recipe without a judge says how to name one", async () => {
  const file = join(folder, "labels.jsonl");
  writeFileSync(file, JSON.stringify(LABELS[0]));
  await expect(printedJson("judge", "check", file)).rejects.toThrow(/recipe 'atlas' has no judge: name one/);
});

test("a folder of the user's with the name of the default recipe is in the way only of --recipe with that name", async () => {
  mkdirSync(join(folder, "atlas"));
  writeFileSync(join(folder, "atlas/recipe.mjs"), "export const recipe = { name: 'mine', config() {} };");
  vi.spyOn(process, "cwd").mockReturnValue(folder);
  onTestFinished(() => void vi.restoreAllMocks());
  const args = argumentsOf(JSON.stringify(LABELS[0]), []);
  expect(await printedJson(...args)).toMatchObject([{ kind: "agreement", n: 1 }]);
  await expect(printedJson(...args, "--recipe", "atlas")).rejects.toThrow(/write \.\/atlas to use yours/);
});

test("a judge is not asked with a file of criteria that is empty", async () => {
  const criteria = join(folder, "criteria.md");
  writeFileSync(criteria, "\n");
  const asked = server.requests.length;
  const check = printedJson(...argumentsOf(JSON.stringify(LABELS[0]), []), "--criteria", criteria);
  await expect(check).rejects.toThrow(/criteria\.md is empty: write the judge's instructions/);
  expect(server.requests.length).toBe(asked);
});

test("after Ctrl-C, the verdicts that were given are shown", async () => {
  reply = (content) => {
    if (!content.includes("Light")) return replyWith(JSON.stringify(referenceVerdict(JSON.parse(content))));
    setTimeout(() => process.emit("SIGINT"), 300);
    return "hang";
  };
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  try {
    const { lines } = await checkThatFails(LABELS);
    expect(errors.mock.calls).toEqual([["stopped after 3 verdicts"]]);
    expect(process.exitCode).toBe(130);
    expect(lines.at(-1)).toMatchObject({ kind: "agreement", n: 3 });
  } finally {
    process.exitCode = undefined;
    errors.mockRestore();
  }
});
