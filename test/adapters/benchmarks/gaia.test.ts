/** @file What GAIA's files hold besides questions: a welcome message, and attachments, which may be unreadable. */
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadGaia } from "../../../adapters/benchmarks/gaia.ts";

const task = { task_id: "1", Question: "What is two plus two?", Level: 1, "Final answer": "?", file_name: "" };

/** A folder with these rows. */
function folderOf(...rows: object[]): string {
  const folder = mkdtempSync(join(tmpdir(), "gaia-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "metadata.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return folder;
}

test("the welcome message of the test split is not a question, whatever its other columns hold", async () => {
  const welcome = { task_id: "0-0-0-0-0", Question: "Welcome!", Level: null };
  const { questions } = await loadGaia(folderOf(welcome, task), "readable", undefined);
  expect(questions.map(({ id }) => id)).toEqual(["gaia:1"]);
});

test("a file with nothing but the welcome message is refused as one without rows", async () => {
  const folder = folderOf({ task_id: "0-0-0-0-0", Question: "Welcome!", Level: null });
  await expect(loadGaia(folder, "readable", undefined)).rejects.toThrow(/metadata\.jsonl: it has no rows$/);
});

// Nobody can read this file from its start, not even root.
const UNREADABLE = "/proc/self/mem";

test.skipIf(!existsSync(UNREADABLE))("an attachment that cannot be read is refused with its path", async () => {
  const folder = folderOf({ ...task, file_name: "notes.txt" });
  const path = join(folder, "notes.txt");
  symlinkSync(UNREADABLE, path);
  const reader = { read: async () => expect.fail("it was read") };
  await expect(loadGaia(folder, "readable", reader)).rejects.toMatchObject({
    code: "benchmark-damaged",
    message: `${path}: it cannot be read (EIO: i/o error, read): make it readable`,
  });
});
