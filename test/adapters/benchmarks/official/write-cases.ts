/** @file Writes the cases to the files that run.py reads (README.md). */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { submissionFiles } from "../../../../adapters/benchmarks/submission.ts";
import { loadWebWalkerQa } from "../../../../adapters/benchmarks/webwalkerqa.ts";
import type { Conversation } from "../../../../core/contracts/conversation.ts";
import { gaiaCases, gymCases, walkerRows, xbenchFile, xbenchMatches } from "./cases.ts";

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: write-cases.ts <folder>");
mkdirSync(folder, { recursive: true });
const write = (name: string, content: unknown) =>
  writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
write("gaia.json", gaiaCases());
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
