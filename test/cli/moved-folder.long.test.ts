/** @file A run whose folder is moved while it trains stops with one clear error, and resumes once the folder is back. */
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { mgrpo, projectOfFile, trainRelay } from "./command-line.ts";

const folder = projectOfFile();

test("training stops when its folder is moved, leaves nothing in the old place, and resumes when it is put back", async () => {
  const [run, elsewhere] = [join(folder, "runs/moved"), join(folder, "runs/renamed")];
  const training = mgrpo(folder, ...trainRelay("moved", "--steps", "40"));
  await vi.waitUntil(() => existsSync(join(run, "steps.jsonl")), { timeout: 120_000 });
  renameSync(run, elsewhere);
  const { code, stderr } = await training;
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /mgrpo: the folder of run 'moved' was moved or deleted while it trained, so training has stopped: to continue, put it back at [^\n]*runs\/moved and run [^\n]* resume moved \[not-found\]\n$/,
  );
  expect(existsSync(run)).toBe(false);
  renameSync(elsewhere, run);
  expect(await mgrpo(folder, "resume", "moved")).toMatchObject({ code: 0, stderr: "" });
});
