/**
 * @file Made-up metadata files of GAIA, and the submission to its leaderboard, for the comparison with the official code (README.md). Most
 * files are as published, with odd content. The others deviate in one way, which `deviation` names.
 */
import { type Random, stream } from "../../../../core/random.ts";
import { anyOf, changed, plain, reference, times } from "./cases.ts";

interface GaiaRow {
  readonly task_id: string;
  readonly Question: string;
  readonly Level: number;
  readonly "Final answer": string;
  readonly file_name: string;
  readonly "Annotator Metadata": Readonly<Record<string, string>>;
}

type Split = "validation" | "test";

export interface GaiaFile {
  readonly split: Split;
  /** The level that the official loader is asked for; undefined for all. */
  readonly level?: number;
  readonly text: string;
  readonly deviation?: string;
}

/** The attachments that stand beside each metadata file. Each has a text of its own. */
export const ATTACHMENTS: readonly string[] = [
  ...[
    "notes.txt",
    "two words.csv",
    " leading space.txt",
    "no-extension",
    ".hidden",
    "..dots.txt",
    "a.b.c.json",
    "UPPER.TXT",
  ],
  ...[
    "50%25 off.txt",
    "number #1.py",
    "why?.txt",
    "a:b.txt",
    "[x] (1).csv",
    "it's.txt",
    '"quoted".txt',
    "*.txt",
    "~",
    "-",
  ],
  ...[
    "Zürich.txt",
    "東京.csv",
    "🗼.txt",
    "cafe\u0301.txt",
    "\u200bzero-width.txt",
    "C:\\path.txt",
    "{name}.txt",
    "a&b=c.txt",
  ],
];
export const attachmentText = (name: string): string =>
  `This is the file with the number ${ATTACHMENTS.indexOf(name)}.`;

function row(random: Random, id: string): GaiaRow {
  const steps = {
    Steps: plain(random),
    "Number of steps": String(random.integer(20)),
    "How long did this take?": "5 minutes",
  };
  return {
    task_id: anyOf([id, `${id}-é`, `${id} / x`], random),
    Question: anyOf([plain, plain, reference, () => '\u0000 \u007f \\ " / </script>'], random)(random),
    Level: 1 + random.integer(3),
    "Final answer": reference(random),
    file_name: random.integer(3) === 0 ? anyOf(ATTACHMENTS, random) : "",
    "Annotator Metadata": { ...steps, Tools: anyOf(["", "1. Web browser\n2. PDF"], random), "Number of tools": "2" },
  };
}

const rowsOf = (random: Random, n: number): GaiaRow[] => times(n, (i) => row(random, `${random.integer(1e9)}-${i}`));

/** The row of the test split that is no question. */
export const WELCOME = {
  task_id: "0-0-0-0-0",
  Question: "Welcome to the test set! This row is no question.",
  Level: 1,
  "Final answer": "?",
  file_name: "",
  "Annotator Metadata": {
    Steps: "",
    "Number of steps": "",
    "How long did this take?": "",
    Tools: "",
    "Number of tools": "",
  },
};

const escaped = (text: string): string =>
  text.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** One object in one of the ways that JSON can be written. */
function written(value: object, random: Random): string {
  const entries = Object.entries(value);
  const from = random.integer(entries.length);
  const text = JSON.stringify(Object.fromEntries([...entries.slice(from), ...entries.slice(0, from)]));
  const ways = [
    text,
    escaped(text),
    text.replace(/"Level":(\d)/, '"Level" : $1.0'),
    text.replace(/^\{/, '{ "another column": [null, {"a": 1e400}], '),
    ` \t${text} `,
    text.replace(/^\{/, '{"Level":7,'),
    text.replaceAll("/", "\\/"),
  ];
  return anyOf(ways, random);
}

function joined(lines: readonly string[], random: Random): string {
  const end = anyOf(["\n", "\n", "\r\n"], random);
  return lines.join(end) + anyOf([end, end, ""], random);
}

/** Ways in which a file can be damaged such that nobody can read it. */
const DAMAGES: readonly ((rows: readonly GaiaRow[]) => string)[] = [
  (rows) => jsonLines(rows).slice(0, -9),
  (rows) => jsonLines(changedLast(rows, { file_name: "gone.txt" })),
  (rows) => jsonLines(changedLast(rows, { file_name: undefined })),
  (rows) => jsonLines(changedLast(rows, { Level: undefined })),
  (rows) => `${jsonLines(rows)}null\n`,
  () => "",
];

const jsonLines = (rows: readonly object[]): string => rows.map((one) => `${JSON.stringify(one)}\n`).join("");
const changedLast = (rows: readonly GaiaRow[], change: object): object[] => [
  ...rows.slice(0, -1),
  { ...rows.at(-1), ...change },
];

/** Two or more rows to a text that deviates from the published files. */
const DEVIATIONS: Readonly<Record<string, (rows: readonly GaiaRow[], random: Random) => string>> = {
  "the level is text": (rows) => jsonLines(changedLast(rows, { Level: String(rows.at(-1)?.Level) })),
  "there is no such level": (rows, random) =>
    jsonLines(changedLast(rows, { Level: anyOf([0, 4, 1.5, -1, null, "", "one", "1.0", [1], {}], random) })),
  "the level is true": (rows) => jsonLines(changedLast(rows, { Level: true })),
  "an empty line": (rows, random) => jsonLines(rows).replace("\n", anyOf(["\n\n", "\n \t\n", "\n\r\n"], random)),
  "a byte order mark": (rows) => `\ufeff${jsonLines(rows)}`,
  "one JSON array": (rows) => JSON.stringify(rows),
  "file_name is null": (rows) => jsonLines(changedLast(rows, { file_name: null })),
  "a carriage return between two keys": (rows) => jsonLines(rows).replace(',"', ',\r"'),
  "carriage returns end the rows": (rows) => jsonLines(rows).replaceAll("\n", "\r"),
  "the annotator's metadata is no object": (rows) => jsonLines(changedLast(rows, { "Annotator Metadata": "none" })),
  "an unpaired surrogate": (rows) => jsonLines(changedLast(rows, { Question: "half of a character: \ud83d" })),
  "NaN in another column": (rows) => jsonLines(rows).replace(/^\{/, '{"score":NaN,'),
  "no question or no id": (rows, random) =>
    jsonLines(changedLast(rows, anyOf([{ Question: "" }, { task_id: "" }], random))),
  "an id of more than 60 characters": (rows) => jsonLines(changedLast(rows, { task_id: "x".repeat(61) })),
  "an answer, question or id that is no text": (rows, random) =>
    jsonLines(
      changedLast(rows, {
        [anyOf(["Final answer", "Question", "task_id"], random)]: anyOf([null, 17, true, ["a"], undefined], random),
      }),
    ),
  "the same id twice": (rows) => jsonLines(changedLast(rows, { task_id: rows[0]?.task_id })),
  "file_name has a folder": (rows, random) =>
    jsonLines(
      changedLast(rows, { file_name: anyOf(["./notes.txt", "../validation/notes.txt", "..//validation/~"], random) }),
    ),
};

export const deviationNames = Object.keys(DEVIATIONS);

/** 2,000 files as published, of which 600 are of the test split, 60 damaged ones, and 20 of each deviation. */
export function gaiaFiles(): GaiaFile[] {
  const random = stream("official", "gaia-loader");
  const published = times(2000, (i): GaiaFile => {
    const split = i < 1400 ? "validation" : "test";
    const rows = rowsOf(random, 1 + random.integer(6));
    const hidden = { "Final answer": "?", "Annotator Metadata": WELCOME["Annotator Metadata"] };
    const asPublished = split === "test" ? [WELCOME, ...rows.map((one) => ({ ...one, ...hidden }))] : rows;
    const text = joined(
      asPublished.map((one) => written(one, random)),
      random,
    );
    return random.integer(4) === 0 ? { split, text, level: anyOf(rows, random).Level } : { split, text };
  });
  const damaged = times(60, (i): GaiaFile => {
    const damage = DAMAGES[i % DAMAGES.length];
    return { split: "validation", text: damage?.(rowsOf(random, 2 + random.integer(3))) ?? "" };
  });
  const deviating = Object.entries(DEVIATIONS).flatMap(([deviation, textOf]) =>
    times(
      20,
      (): GaiaFile => ({ split: "validation", deviation, text: textOf(rowsOf(random, 2 + random.integer(3)), random) }),
    ),
  );
  return [...published, ...damaged, ...deviating];
}

/** The rows of a Parquet file of the layout that GAIA has had since October 2025. */
export function parquetRows() {
  return rowsOf(stream("official", "gaia-parquet"), 1500).map(({ Level, file_name, ...rest }) => ({
    ...{ task_id: rest.task_id, Question: rest.Question, Level: String(Level), "Final answer": rest["Final answer"] },
    ...{
      file_name,
      file_path: file_name && `2023/validation/${file_name}`,
      "Annotator Metadata": rest["Annotator Metadata"],
    },
  }));
}

/** The JSON Lines to which the command in docs/benchmarks.md converts that Parquet file. */
export const convertedParquet = (): string =>
  parquetRows()
    .map((one) => `${escaped(JSON.stringify(one)).replaceAll("/", "\\/")}\n`)
    .join("");

/** Questions with an answer each. */
export function answeredRows(): { row: GaiaRow; answer: string }[] {
  const random = stream("official", "gaia-submission");
  return rowsOf(random, 2000).map((one) => ({
    row: { ...one, file_name: "" },
    answer: changed(one["Final answer"], random),
  }));
}
