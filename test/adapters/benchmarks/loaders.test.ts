/** @file Benchmark loaders on fixtures in the benchmarks' formats, with made-up questions; and the files that they refuse. */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadGaia } from "../../../adapters/benchmarks/gaia.ts";
import { loadJsonl } from "../../../adapters/benchmarks/jsonl.ts";
import { loadWebWalkerQa } from "../../../adapters/benchmarks/webwalkerqa.ts";
import { loadXbench } from "../../../adapters/benchmarks/xbench.ts";
import { attachment } from "../../../adapters/tools/attachment.ts";
import { extract } from "../../../adapters/tools/documents/extract.ts";
import { leakageGuard } from "../../../adapters/tools/web/visit/leakage.ts";
import { decrypt, encrypt } from "../../../core/contracts/encryption.ts";
import type { Attachments } from "../../../core/contracts/evaluation-suite.ts";
import { originalWording, type Question, SuiteQuestions } from "../../../core/contracts/question.ts";
import { openToolBudget } from "../../../core/conversation/tool-budget.ts";
import type { MgrpoError } from "../../../core/errors.ts";
import { address } from "../../fakes/conversations.ts";
import { pdfOf } from "../../world/pdf.ts";

const FIXTURES = resolve(import.meta.dirname, "../../fixtures/benchmarks");
const fixture = (name: string) => join(FIXTURES, name);
const text = (name: string) => readFileSync(fixture(name), "utf8");

const folder = mkdtempSync(join(tmpdir(), "benchmarks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function written(content: string): string {
  const path = join(folder, "file");
  writeFileSync(path, content);
  return path;
}

type Load = (file: string) => SuiteQuestions | Promise<SuiteQuestions>;

/** Loads GAIA for a team that has the tool `read_attachment`. */
const asGaia = (file: string, which: Attachments = "readable") => loadGaia(file, which, { read: extract });

/** The error line of a refused file. */
async function refusal(load: Load, file: string): Promise<string> {
  try {
    await load(file);
  } catch (error) {
    expect(error).toMatchObject({ code: "benchmark-damaged", retryable: false });
    return (error as MgrpoError).message;
  }
  return expect.fail("it was not refused");
}

test("GAIA: questions have levels, answers and attachments, whether loaded from the folder or from its metadata.jsonl", async () => {
  const { questions, canary } = SuiteQuestions.parse(await asGaia(fixture("gaia")));
  expect(await asGaia(fixture("gaia/metadata.jsonl"))).toEqual({ questions });
  expect(canary).toBeUndefined();
  expect(questions.map(({ level, kind, answer }) => [level, kind, answer])).toEqual([
    [1, "level 1", "4"],
    [2, "level 2", "gold, silver"],
    [2, "level 2", "sea gull"],
    [3, "level 3", "1250"],
  ]);
  const attachment = { name: "metals.csv", title: "", text: "symbol,metal\nAu,gold\nAg,silver" };
  expect(questions[1]).toMatchObject({
    id: "gaia:00000000-0000-4000-8000-000000000002",
    prompt: expect.stringContaining("The file that comes with it: metals.csv\n"),
    facts: { task: "00000000-0000-4000-8000-000000000002", attachment },
  });
  expect(questions[0]?.facts).toMatchObject({ attachment: null });
});

describe("GAIA's attachments", () => {
  const attached = join(folder, "attached");
  const files = ["", "towns.xlsx", "towns.pdf", "photo.png", "damaged.xlsx"];
  beforeAll(() => {
    mkdirSync(attached);
    copyFileSync(fixture("towns.xlsx"), join(attached, "towns.xlsx"));
    writeFileSync(join(attached, "towns.pdf"), pdfOf(["Alby lies on the Ale"]));
    writeFileSync(join(attached, "photo.png"), Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "latin1"));
    writeFileSync(join(attached, "damaged.xlsx"), "no workbook");
    const rows = files.map((file_name, i) => ({
      ...{ task_id: `t${i}`, Question: "What is in it?", Level: 1, "Final answer": "x", file_name },
    }));
    writeFileSync(join(attached, "metadata.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  });
  const idsOf = ({ questions }: SuiteQuestions) => questions.map(({ id }) => id);

  test("are read when the questions are loaded; a question with an unreadable one is left out, with the reason", async () => {
    const set = await asGaia(attached);
    expect(idsOf(set)).toEqual(["gaia:t0", "gaia:t1", "gaia:t2"]);
    expect(set.unasked).toEqual([
      { question: "gaia:t3", why: "photo.png: it is binary data" },
      { question: "gaia:t4", why: "damaged.xlsx: it is a damaged spreadsheet" },
    ]);
    const shown = set.questions.map((question) => shownOf(question, {}));
    expect(await Promise.all(shown)).toEqual([
      "no file comes with this question",
      expect.stringMatching(/^towns\.xlsx\n\n\[sheet 1 of 2: Towns\]\ntown\tfounded.*\nAlby\t2000-01-01\t42\ttrue\n/),
      expect.stringContaining("Alby lies on the Ale"),
    ]);
    const [, sheet] = set.questions;
    expect(sheet && (await shownOf(sheet, { part: 2 }, 100))).toMatch(/^towns\.xlsx\npart 2, the last one\n\n/);
  });

  test("`none` keeps only questions without files; `all` keeps every question, with the paths of unreadable files", async () => {
    expect(idsOf(await asGaia(attached, "none"))).toEqual(["gaia:t0"]);
    const { questions, unasked } = await asGaia(attached, "all");
    expect([questions.length, unasked]).toEqual([5, undefined]);
    expect(questions[1]?.prompt).toContain("comes with it: towns.xlsx\n");
    expect(questions[3]?.prompt).toContain(`comes with it: ${join(attached, "photo.png")}\n`);
    expect(questions[3] && (await shownOf(questions[3], {}))).toBe("photo.png cannot be read: it is binary data");
  });

  test("are all unreadable if no agent of the team has the tool read_attachment", async () => {
    const { questions, unasked } = await loadGaia(attached, "readable", undefined);
    expect([questions.length, unasked?.length]).toEqual([1, 4]);
    expect(unasked?.[0]?.why).toBe("towns.xlsx: no agent of this team has the tool read_attachment");
  });

  const shownOf = (question: Question, args: { part?: number }, responseCharacters = 4000) =>
    attachment.run(args, {
      question,
      address,
      budget: openToolBudget(undefined),
      responseCharacters,
      signal: new AbortController().signal,
    });
});

test("GAIA and WebWalkerQA: questions keep their original wording, which the leakage guard finds in a dump; it does not find the prompt, which has added text", async () => {
  const wording = "Which of the three lists of made-up towns names the one that was founded last of all?";
  const task = { task_id: "1", Question: wording, Level: 1, "Final answer": "7", file_name: "" };
  const info = { difficulty_level: "easy", lang: "en", type: "single_source", domain: "x" };
  const walk = { question: wording, answer: "7", root_url: "https://towns.example/", info };
  const sets = [await asGaia(written(JSON.stringify(task))), loadWebWalkerQa(written(JSON.stringify([walk])))];
  for (const [question] of sets.map(({ questions }) => questions)) {
    if (!question) throw new Error("no question");
    expect(originalWording(question)).toBe(wording);
    const isFound = (text: string) => leakageGuard([]).leaksQuestion(`A dump. <b>${wording}</b> 7`, text);
    expect([isFound(originalWording(question)), isFound(question.prompt)]).toEqual([true, false]);
  }
  expect(originalWording({ prompt: "Who?", facts: { question: 7 } })).toBe("Who?");
});

test("xbench: loaded questions are encrypted, and the canary decrypts them", () => {
  const { questions, canary = "" } = SuiteQuestions.parse(loadXbench(fixture("xbench.csv")));
  expect(questions.map(({ id, kind }) => [id, kind])).toEqual([
    ["xbench-2510:101", "DeepSearch-2510"],
    ["xbench-2510:102", "DeepSearch-2510"],
    ["xbench-2510:103", "DeepSearch-2510"],
  ]);
  const opened = questions.map(({ prompt, answer }) => [decrypt(prompt, canary), decrypt(answer, canary)]);
  expect(opened[1]).toEqual(["Which made-up city lies on the made-up river Nulle?", "Nulleville"]);
  expect(opened[0]?.[1]).toBe("乌有城");
  for (const plain of opened.flat()) expect(JSON.stringify(questions)).not.toContain(plain);
});

test("decrypt inverts encrypt; text that is not base64 is refused, and so is a canary that gives invalid UTF-8", () => {
  for (const plain of ["", "a", "Zürich 東京 🗼", "x".repeat(500)]) {
    for (const canary of ["k", "canary GUID x:1", "钥匙"]) expect(decrypt(encrypt(plain, canary), canary)).toBe(plain);
  }
  expect(() => decrypt("no base64!", "k")).toThrow("the text is not base64");
  expect(() => decrypt(encrypt("乌有城", "right"), "wrong canary")).toThrow("does not decrypt the text");
});

test("WebWalkerQA: questions have difficulty, language, kind and website, whether loaded from a JSON array or from JSON Lines", () => {
  const loaded = SuiteQuestions.parse(loadWebWalkerQa(fixture("webwalkerqa.json")));
  const lines = (JSON.parse(text("webwalkerqa.json")) as unknown[]).map((task) => JSON.stringify(task)).join("\n");
  expect(loadWebWalkerQa(written(lines))).toEqual(loaded);
  expect(loaded.questions.map(({ id, level, kind }) => [id, level, kind])).toEqual([
    ["webwalkerqa:1", 1, "single_source"],
    ["webwalkerqa:2", 2, "multi_source"],
    ["webwalkerqa:3", 3, "single_source"],
    ["webwalkerqa:4", 2, "multi_source"],
  ]);
  expect(loaded.questions[2]).toMatchObject({
    prompt: "虚构的游戏哪一年发布？\n\nThe website to start from: https://game.example/",
    answer: "2019年",
    facts: { difficulty: "hard", language: "zh", domain: "game" },
  });
});

test("your own questions: level, kind and facts may be left out", () => {
  expect(SuiteQuestions.parse(loadJsonl(fixture("questions.jsonl"))).questions).toEqual([
    { id: "jsonl:sum", kind: "question", level: 1, prompt: "What is three plus four?", answer: "7", facts: {} },
    {
      ...{ id: "jsonl:sea", kind: "geography", level: 2, prompt: "What lies around an island?", answer: "water" },
      facts: { page: "Islands" },
    },
  ]);
});

const gaia = (change: object) =>
  `${text("gaia/metadata.jsonl").split("\n")[0]}\n${JSON.stringify({ ...JSON.parse(text("gaia/metadata.jsonl").split("\n")[2] ?? ""), ...change })}\n`;
const xbench = (change: (line: string) => string) =>
  text("xbench.csv")
    .split("\n")
    .map((line, i) => (i === 2 ? change(line) : line))
    .join("\n");

test.each<[string, Load, string | Uint8Array, RegExp]>([
  ["no such level", asGaia, gaia({ Level: 4 }), /row 2: Level: must be 1, 2 or 3$/],
  [
    "a missing attachment",
    asGaia,
    gaia({ file_name: "gone.pdf" }),
    /row 2: its attachment .*gone\.pdf is missing: put/,
  ],
  [
    "an attachment elsewhere",
    asGaia,
    gaia({ file_name: "../secret" }),
    /row 2: file_name '\.\.\/secret' is not a plain file/,
  ],
  [
    "the same task twice",
    asGaia,
    gaia({ task_id: "00000000-0000-4000-8000-000000000001" }),
    /row 2: its id '0{8}.*' is also the id of row 1$/,
  ],
  [
    "columns of another version",
    asGaia,
    '{"id":1,"question":"?"}',
    /row 1: it has no task_id, Question, Level, Final answer, file_name: this is not GAIA 2023/,
  ],
  ["half a line", asGaia, `${gaia({})}{"task_id": "abc`, /row 3: it is not JSON$/],
  ["nothing in it", asGaia, "\n", /it has no rows$/],
  ["Parquet", asGaia, new Uint8Array([0x50, 0x41, 0x52, 0x31, 0xff]), /it is Parquet: convert it to JSON Lines/],
  ["not text", asGaia, new Uint8Array([0xff, 0xfe, 0x00]), /it is not UTF-8 text$/],
  [
    "a row that was cut",
    loadXbench,
    xbench((line) => line.replace(/^(102,.{7})[^,]*/, "$1")),
    /row 2: its prompt cannot be decrypted: the text is not base64$/,
  ],
  [
    "a canary of another benchmark",
    loadXbench,
    xbench((line) => line.replace("DeepSearch", "ScienceQA")),
    /row 2: its canary is not xbench-DeepSearch's/,
  ],
  [
    "two versions in one file",
    loadXbench,
    xbench((line) => line.replace("-2510", "-2505")),
    /row 2: its canary differs from row 1's/,
  ],
  [
    "a row that its canary does not decrypt",
    loadXbench,
    xbench((line) => line.replace(/^102,[^,]*/, `102,${encrypt("乌有城", "another")}`)),
    /row 2: its prompt cannot be decrypted: the canary does not decrypt the text to UTF-8$/,
  ],
  [
    "a row with too few columns",
    loadXbench,
    xbench(() => "102,abc"),
    /line 3: it is not CSV \(CSV_RECORD_INCONSISTENT_COLUMNS\)$/,
  ],
  [
    "another table",
    loadXbench,
    "id,type,question\n1,a,b\n",
    /row 1: it has no prompt, answer, canary: this is not xbench-DeepSearch/,
  ],
  [
    "the column names of WebWalkerQA's README",
    loadWebWalkerQa,
    '[{"Question":"?","Answer":"!","Root_Url":"u","Info":{}}]',
    /row 1: it has no question, answer, root_url, info/,
  ],
  [
    "an unknown difficulty",
    loadWebWalkerQa,
    text("webwalkerqa.json").replace('"hard"', '"extreme"'),
    /row 3: info\.difficulty_level: /,
  ],
  ["an array that is not JSON", loadWebWalkerQa, "[{]", /it is not JSON$/],
  [
    "the key that benchmarks use",
    loadJsonl,
    '{"id":"1","question":"?","answer":"!"}',
    /row 1: it has the key 'question': write 'prompt' instead$/,
  ],
  ["custom questions without answers", loadJsonl, '{"id":"1","prompt":"?"}', /row 1: it has no answer$/],
  ["an unknown key", loadJsonl, '{"id":"1","prompt":"?","answer":"!","anwser":"!"}', /row 1: \w+ key: "anwser"$/],
])("refused with one line that starts with the file and holds no plaintext: %s", async (name, load, content, line) => {
  const attached = join(folder, name.replaceAll(" ", "-"));
  mkdirSync(attached);
  copyFileSync(fixture("gaia/metals.csv"), join(attached, "metals.csv"));
  const file = join(attached, "data");
  writeFileSync(file, content);
  const message = await refusal(load, file);
  expect(message).toMatch(line);
  expect(message.startsWith(file)).toBe(true);
  expect(message).not.toMatch(/\n|乌有城|Nulle/);
});

test("the error for a missing file names it", async () => {
  expect(await refusal(loadJsonl, join(folder, "gone"))).toMatch(/gone: no such file; name a question file/);
  expect(await refusal(asGaia, folder)).toMatch(/metadata\.jsonl: no such file/);
});
