/** @file Writes the cases to the files that run.py reads (README.md). */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadGaia } from "../../../../adapters/benchmarks/gaia.ts";
import { submissionFiles } from "../../../../adapters/benchmarks/submission.ts";
import { loadWebWalkerQa } from "../../../../adapters/benchmarks/webwalkerqa.ts";
import type { Conversation } from "../../../../core/contracts/conversation.ts";
import { gaiaCases, gymCases, walkerRows, xbenchFile, xbenchMatches } from "./cases.ts";
import { ATTACHMENTS, answeredRows, attachmentText, gaiaFiles, parquetRows } from "./gaia-cases.ts";

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: write-cases.ts <folder>");
mkdirSync(folder, { recursive: true });
const write = (name: string, content: unknown) =>
  writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
write("gaia.json", gaiaCases());
write("gaia-files.json", gaiaFiles());
write("gaia-attachments.json", Object.fromEntries(ATTACHMENTS.map((name) => [name, attachmentText(name)])));
write("gaia-parquet.json", parquetRows());
const gold = answeredRows();
write(
  "gaia-gold.json",
  gold.map(({ row }) => row),
);
const gaiaSet = await loadGaia(join(folder, "gaia-gold.json"), "none", undefined);
const given = gold.map(({ answer }) => ({ answer, turns: [] as Conversation["turns"] }) as Conversation);
write("gaia-submission.jsonl", submissionFiles("gaia", gaiaSet, [given]).get("submission-run1.jsonl"));
write("reasoning-gym.json", gymCases());
write("xbench.csv", xbenchFile());
write("xbench-match.json", xbenchMatches());
const rows = walkerRows();
write(
  "webwalkerqa.json",
  rows.map(({ task }) => task),
);
const set = loadWebWalkerQa(join(folder, "webwalkerqa.json"));
const answered = rows.map(({ answer }) => ({ answer }) as Conversation);
write("webwalkerqa-submission.jsonl", submissionFiles("webwalkerqa", set, [answered]).get("submission-run1.jsonl"));
