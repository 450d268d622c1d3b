/**
 * @file What the leakage guard withholds: addresses of the benchmarks, addresses that the settings block, and pages with a question, in several
 * scripts. What it lets through: addresses that resemble those, and pages about a question's subject. All questions are made up.
 */
import { describe, expect, test } from "vitest";
import { leakageGuard } from "../../../../adapters/tools/web/visit/leakage.ts";
import { worldPages } from "../../../world/pages.ts";

const guard = leakageGuard([
  ...["blocked.test", "partly.test/a", "Bücher.test/ä"],
  ...["*.starred.test", ".dotted.test", "wiki.test/index.php?title=Alby"],
]);

describe("addresses", () => {
  test.each([
    "https://huggingface.co/spaces/callanwu/WebWalkerQALeaderboard",
    "https://huggingface.co/spaces/callanwu/WebWalkerQALeadeboard",
    "https://datasets-server.huggingface.co/rows?dataset=callanwu%2FWebWalkerQA&config=default&split=main",
    "https://datasets-server.huggingface.co/first-rows?dataset=gaia-benchmark%252FGAIA&split=validation",
    "https://datasets-server.huggingface.co/rows?dataset=xbench/DeepSearch-2510",
    "https://huggingface.co/api/datasets/gaia-benchmark/GAIA/parquet",
    "https://huggingface.co/api/datasets/xbench/DeepSearch",
    "https://huggingface.co/datasets/xbench/ScienceQA",
    "https://huggingface.co/datasets/someone/GAIA/raw/main/metadata.jsonl",
    "https://hf-mirror.com/datasets/gaia-benchmark/GAIA",
    "https://www.modelscope.cn/datasets/AI-ModelScope/GAIA",
    "https://web.archive.org/web/2025/https://huggingface.co/datasets/gaia-benchmark/GAIA",
    "https://cdn.jsdelivr.net/gh/xbench-ai/xbench-evals@main/data/DeepSearch.csv",
    "https://raw.githubusercontent.com/someone/xbench-evals/main/data/DeepSearch.csv",
    "https://github.com/Alibaba-NLP/WebWalker/blob/main/README.md",
    "https://xbench.org/agi/aisearch",
    "https://deep.blocked.test/x",
    "https://partly.test/A%2Fb/",
    "https://www.bücher.test/ä/1",
    "https://starred.test/",
    "https://deep.starred.test/x",
    "https://deep.dotted.test/x",
    "https://wiki.test/index.php?title=Alby#History",
  ])("%s is withheld", (url) => expect(guard.isBlocked(new URL(url))).toBe(true));

  test.each([
    "https://en.wikipedia.org/wiki/Gaia",
    "https://www.esa.int/Science_Exploration/Space_Science/Gaia",
    "https://www.cosmos.esa.int/web/gaia-benchmark-stars",
    "https://www.kaggle.com/datasets/someone/gaia",
    "https://huggingface.co/datasets/someone/gaia-stars",
    "https://huggingface.co/papers/2311.12983",
    "https://arxiv.org/abs/2501.07572",
    "https://docs.xbench.net/user-guide/",
    "https://github.com/Alibaba-NLP/ACE",
    "https://github.com/someone/web-walker",
    "https://partly.test/ab",
    "https://bücher.test/a",
    "https://unstarred.test/",
    "https://wiki.test/index.php",
    "https://wiki.test/index.php?title=Alby_Bridge",
    "https://example.com/%E4%B8%8A%FF?x=%zz",
  ])("%s is not withheld", (url) => expect(guard.isBlocked(new URL(url))).toBe(false));
});

/** Made-up questions in several scripts. */
const QUESTIONS = [
  "某虚构小镇的盐矿博物馆哪一年开放?",
  "阿兰迪亚的首都是哪里?",
  "盐桥由谁设计建造?",
  "在阿兰迪亚北部,由两位数学家共同创办、后来因洪水迁址的图书馆叫什么名字?",
  "虚構の町アルビーで最初に橋を架けた技師は誰ですか。",
  "Which engineer drew the third bridge of Alby?",
  "Which of the three made-up towns on the River Ale was founded before its own bridge was built, and by how many years?",
  "알비 마을의 소금 광산을 처음 발견한 세 명의 상인 가운데 가장 어린 사람은 누구인가?",
] as const;

const asJson = (text: string) => JSON.stringify(text).replace(/[^\x20-\x7e]/g, escapeOf);
const entityOf = (character: string, at: number) =>
  at % 2 === 0 ? `&#${character.charCodeAt(0)};` : `&#x${character.charCodeAt(0).toString(16)};`;
const escapeOf = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

describe.each(QUESTIONS)("%s", (question) => {
  test.each([
    ["as it is", (text: string) => text],
    ["in a table", (text: string) => `| id | ${text.toUpperCase().replaceAll(" ", "  ")} | 7 |`],
    ["in bold, without punctuation", (text: string) => `**${text.replace(/[,、。?]/g, "")}** 7`],
    ["in JSON", (text: string) => `{"question": ${asJson(`${text}\n`)}, "answer": "7"}`],
    ["as numeric entities", (text: string) => text.replace(/[^ ]/g, entityOf)],
    ["with invisible characters", (text: string) => [...text].join("\u200b\u00ad")],
    [
      "with links",
      (text: string) =>
        text.replace(/[\p{Script=Han}]{2}|[^\s\p{Script=Han}]+/gu, '[$&](https://a.test/b?c=d "a title")'),
    ],
    ["in a long page", (text: string) => `${"前文 before ".repeat(5000)}${text}${" after 后文".repeat(5000)}`],
  ])("a page with the question %s is withheld", (_, pageOf) => {
    expect(guard.leaksQuestion(pageOf(question), question)).toBe(true);
  });

  test("other questions and ordinary pages are not withheld", () => {
    for (const page of [...QUESTIONS.filter((other) => other !== question), ...ORDINARY])
      expect(guard.leaksQuestion(page, question)).toBe(false);
  });
});

/** Pages without any of the questions. Most are about the same subjects, and some contain an answer. */
const ORDINARY = [
  ...worldPages.map(({ title, lines }) => `${title}\n${lines.join("\n")}`),
  "某虚构小镇的盐矿博物馆于一九八七年开放。某虚构小镇的盐矿博物馆是阿兰迪亚最大的博物馆。",
  "阿兰迪亚北部的图书馆由两位数学家共同创办,后来因洪水迁址,现名阿尔比图书馆。",
  "阿兰迪亚的首都是阿尔比。盐桥由亚当·贝尔设计,建造于一九八七年。谁设计了其他的桥不详。",
  "虚構の町アルビーで最初に橋を架けた技師はアダム・ベルである。",
  "The engineer who drew the third bridge of Alby is Adam Bell. Which engineer drew the first is not known.",
  "Three made-up towns lie on the River Ale. Alby was founded before its own bridge was built, by forty years.",
  "알비 마을의 소금 광산을 처음 발견한 사람은 세 명의 상인이다.",
  "第十九届运动会在阿兰迪亚举行。".repeat(200),
];

test.each(["&", "&amp;"])("a question in XML whose punctuation is escaped with %s is found", (ampersand) => {
  const question = 'In which year did the "Salt & Iron" museum of Alby open its founder\'s third hall?';
  const names: Record<string, string> = { '"': "quot;", "'": "apos;", "&": "amp;" };
  const escaped = question.replace(/["'&]/g, (character) => `${ampersand}${names[character]}`);
  expect(guard.leaksQuestion(`<row><question>${escaped}</question></row>`, question)).toBe(true);
});

test.each(["\n", "<br>", "<BR />", "&lt;br&gt;", "&amp;lt;br/&amp;gt;"])(
  "a question of several lines is found in a cell of a table, which joins them with %j",
  (between) => {
    const lines = ["A miller of Alby kept a list of guests.", "Ann came twice and Bob once.", "Who came first in May?"];
    expect(guard.leaksQuestion(`| 1 | ${lines.join(between)} | Ann |`, lines.join("\n"))).toBe(true);
  },
);

test("a question with an exponent is found, however the question and the page write the exponent", () => {
  const written = ["m\u00b2", "m^2", "m2"].map(
    (unit) => `How many rooms of the old mill at Alby have more than 40 ${unit} each?`,
  );
  for (const question of written) for (const page of written) expect(guard.leaksQuestion(page, question)).toBe(true);
});

test("a long question is found despite one typo, not two; a short one is too common to be looked for", () => {
  // 93 n-grams: one changed word is in 8 of them, so 85 are left, of which 84 suffice.
  const long = Array.from({ length: 100 }, (_, i) => `word${i}`).join(" ");
  expect(guard.leaksQuestion(long.replace("word50", "wodr50"), long)).toBe(true);
  expect(guard.leaksQuestion(long.replace("word50", "wodr50").replace("word90", "wodr90"), long)).toBe(false);
  expect(guard.leaksQuestion(long.slice(0, long.length / 2), long)).toBe(false);
  for (const short of ["阿尔比在哪里?", "What is the capital of Arlandia?", "???", ""])
    expect(guard.leaksQuestion(`Quiz: ${short}`, short)).toBe(false);
});

test("a long page is searched once for all rollouts of a question, and again for another question or page", () => {
  const other = "Which engineer drew the first bridge over the River Ale in Alby?";
  const question = "In which year did the salt museum of Alby open its third hall?";
  // Each of these characters stands for four words, and its last word joins the next one's first: 300,000 tokens, which take up to 0.2 seconds.
  const page = `${question} ${"\ufdfa".repeat(100_000)}`;
  const before = process.cpuUsage();
  for (let rollout = 0; rollout < 64; rollout++) expect(guard.leaksQuestion(page, question)).toBe(true);
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(3);
  expect(guard.leaksQuestion(page, other)).toBe(false);
  expect(guard.leaksQuestion("another page", question)).toBe(false);
  expect(guard.leaksQuestion(page, question)).toBe(true);
});

test("a page or an address with a long run of combining marks is searched in linear time", () => {
  const question = "In which year did the salt museum of Alby open its third hall?";
  // Of different combining classes, in the wrong order: normalization sorts them.
  const marks = "\u0315\u0300\u05ae".repeat(166_000);
  const before = process.cpuUsage();
  expect(guard.leaksQuestion(`a${marks} ${question}`, question)).toBe(true);
  expect(guard.isBlocked(new URL(`https://a.test/${marks}`))).toBe(false);
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(15);
});
