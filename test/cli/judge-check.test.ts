/** @file `mgrpo judge check`, against a fake server: agreement, disagreements and cost; bad labels, and a server that demands payment. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import { fails, type Reply, says, startOpenAiServer } from "../fakes/openai-server.ts";
import { holdsReference } from "../fakes/scripted-judge.ts";
import { projectOfFile } from "./command-line.ts";
import { printedJson } from "./printed.ts";

const folder = projectOfFile();
let reply: (content: string) => Reply;
const server = await startOpenAiServer(({ body }) => reply(body.messages.at(-1)?.content ?? ""));
afterAll(() => server.close());
beforeEach(() => {
  reply = (content) => says(JSON.stringify(holdsReference(JSON.parse(content))));
});

const LABELS = [
  { id: "a", question: "Which city?", reference: "Paris", answer: "It is Paris.", correct: true },
  { id: "b", question: "Which city?", reference: "Paris", answer: "London", correct: false },
  { id: "c", question: "Which city?", reference: "Paris", answer: "City of Light", correct: true },
  { id: "d", question: "Which city?", reference: "Paris", answer: "Paris or London", correct: false },
];

function check(text: string, ...set: string[]) {
  const file = join(folder, "labels.jsonl");
  writeFileSync(file, text);
  const settings = set.flatMap((setting) => ["--set", setting]);
  return printedJson("judge", "check", file, "--judge", `openai:${server.url}#judge`, ...settings);
}

test("agreement, and each disagreement with the judge's reason", async () => {
  const prices = 'judge.usdPerMillionTokens={"input":1000,"output":10000}';
  expect(await check(LABELS.map((label) => JSON.stringify(label)).join("\n"), prices)).toMatchObject([
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

test("expert labels: the judge's error against human scores, and each disagreement", async () => {
  // The scores are by the length of the report: 0.5, 0.8, 0.3 and 1.0.
  reply = (content) => {
    const { task, steps, report } = JSON.parse(content) as { task: string; steps: unknown; report: string };
    return says(JSON.stringify({ reason: `${task}: ${JSON.stringify(steps)}`, score: report.length / 10 }));
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

test("a disagreement has a vote's reason, even if the median lies between two votes because a third failed", async () => {
  const votes = [
    says("I cannot say"),
    ...[0.2, 0.4].map((score) => says(JSON.stringify({ reason: `worth ${score}`, score }))),
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
])("bad labels are refused with their line: %j", async (text, line) => {
  await expect(check(text)).rejects.toThrow(line);
});

test("the error for an answer without a verdict names the label", async () => {
  reply = (content) =>
    says(content.includes("London") ? "I cannot say" : JSON.stringify(holdsReference(JSON.parse(content))));
  await expect(check(`${JSON.stringify(LABELS[0])}\n${JSON.stringify(LABELS[1])}`)).rejects.toMatchObject({
    code: "judge-failed",
    message: expect.stringMatching(/^label 2: /),
  });
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
