/**
 * @file `mgrpo show --html`: by default the page is in `runs/<run>/`, for a run in a store too. The error for a page that cannot be written names
 * the file and says what to do.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startLocalCloud } from "../../adapters/local-cloud/cloud.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { chdirToProject, mgrpoWith, projectOfFile } from "./command-line.ts";
import { printed } from "./printed.ts";
import { recordRun } from "./recorded-run.ts";
import { config } from "./records.ts";

const folder = chdirToProject();
const elsewhere = projectOfFile();

test("a page that cannot be written is refused with its path", async () => {
  await recordRun(folder);
  // Even root cannot write below a file.
  writeFileSync(join(folder, "file"), "");
  await expect(printed("show", config.run, "0", "--html", "file/page.html")).rejects.toThrow(
    /^--html file\/page\.html cannot be written: name a file that you can write to/,
  );
});

test("the page of a run in a store, too, is written into a folder with the run's name, so that no other run's page replaces it", async () => {
  const bytes = new TextEncoder().encode(JSON.stringify(config));
  await recordRun(folder, {
    more: async ({ objects }) => void (await objects.commit(objectKeys.config(config.run), bytes)),
  });
  const cloud = await startLocalCloud({ directory: join(folder, "runs", config.run, "cloud") });
  const page = join("runs", config.run, "show-0.html");
  try {
    const shown = await mgrpoWith(cloud.environment, elsewhere, "show", config.run, "0", "--html");
    expect(shown).toMatchObject({ code: 0, stdout: `${page}\n` });
  } finally {
    await cloud.close();
  }
  expect(existsSync(join(elsewhere, page))).toBe(true);
});
