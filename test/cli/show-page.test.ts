/** @file `mgrpo show --html`: the error for a page that cannot be written is one line that names the file, and what to do. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mgrpo, projectOfFile } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { config } from "./records.ts";

const folder = projectOfFile();

test("a page that cannot be written is refused with its path", async () => {
  await recordRun(folder);
  // Even root cannot write below a file.
  writeFileSync(join(folder, "file"), "");
  const { code, stderr } = await mgrpo(folder, "show", config.run, "0", "--html", "file/page.html");
  expect(code).toBe(1);
  expect(stderr).toMatch(/^mgrpo: --html file\/page\.html cannot be written: name a file that you can write to/);
});
