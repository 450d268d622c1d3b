/** @file `mgrpo runs` if the store that the environment names does not respond. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../fakes/fronts.ts";
import { mgrpoWith, parsedLines, projectOfFile } from "./command-line.ts";
import { config } from "./records.ts";

const folder = projectOfFile();

test("local runs are listed, and one line reports that the store did not respond", { timeout: 60_000 }, async () => {
  const run = join(folder, "runs", config.run);
  mkdirSync(run, { recursive: true });
  writeFileSync(join(run, "config.json"), JSON.stringify(config));
  const environment = {
    AWS_ENDPOINT_URL: `http://127.0.0.1:${await freePort()}`,
    AWS_ACCESS_KEY_ID: "x",
    AWS_SECRET_ACCESS_KEY: "x",
    MGRPO_TABLE: "t",
    MGRPO_BUCKET: "b",
  };
  const { code, stdout, stderr } = await mgrpoWith(environment, folder, "runs");
  expect(parsedLines(stdout)).toMatchObject([{ run: config.run, state: "stopped" }]);
  expect(stderr).toMatch(/^mgrpo: only the runs of this folder are listed: [^\n]*the store at [^\n]*\n$/);
  expect(code).toBe(1);
});
