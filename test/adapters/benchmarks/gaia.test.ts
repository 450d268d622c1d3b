/** @file What GAIA's files hold besides questions. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadGaia } from "../../../adapters/benchmarks/gaia.ts";

test("the welcome message of the test split is not a question, whatever its other columns hold", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gaia-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const welcome = { task_id: "0-0-0-0-0", Question: "Welcome!", Level: null };
  const task = { task_id: "1", Question: "What is two plus two?", Level: 1, "Final answer": "?", file_name: "" };
  writeFileSync(join(folder, "metadata.jsonl"), `${JSON.stringify(welcome)}\n${JSON.stringify(task)}\n`);
  const { questions } = await loadGaia(folder, "readable", undefined);
  expect(questions.map(({ id }) => id)).toEqual(["gaia:1"]);
});
