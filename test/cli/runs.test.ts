/** @file What `mgrpo runs` prints if a run cannot be read, the environment lacks the bucket, or the store does not respond. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../fakes/proxies.ts";
import { mgrpo, mgrpoWith, parsedLines, projectFolder, projectOfFile } from "./command-line.ts";
import { config } from "./records.ts";

const folder = projectOfFile();

test("a run that cannot be read does not hide the others", async () => {
  const project = projectFolder();
  for (const run of ["good", "locked"]) {
    mkdirSync(join(project, "runs", run), { recursive: true });
    writeFileSync(join(project, "runs", run, "config.json"), JSON.stringify({ ...config, run }));
  }
  // Even root cannot read a folder as a file.
  mkdirSync(join(project, "runs", "locked", "status.json"));
  const { code, stdout } = await mgrpo(project, "runs");
  rmSync(project, { recursive: true });
  expect(parsedLines(stdout)).toMatchObject([
    { run: "good", state: "stopped" },
    {
      run: "locked",
      state: "damaged",
      reason: expect.stringMatching(/status\.json cannot be read \(EISDIR: .*\): it is a folder: move it away/),
    },
  ]);
  expect(code).toBe(0);
});

test("if the environment names a table but no bucket, one line names the missing variable", async () => {
  const { code, stdout, stderr } = await mgrpoWith({ MGRPO_TABLE: "t", MGRPO_BUCKET: "" }, folder, "runs");
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^mgrpo: .*MGRPO_BUCKET: set it to the name of the bucket \[config-invalid\]\n$/);
});

test("local runs are listed, and one line reports that the store did not respond", async () => {
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
