/**
 * @file A results folder that cannot be written, or has a model, is refused before the work; a run whose store is gone does not begin again; the errors for
 * damaged files say what to do.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { checkEmbeddedCloud } from "../../cli/local/checks.ts";
import { makeMissingModels } from "../../cli/local/missing-models.ts";
import { pretrain } from "../../cli/pretrain.ts";
import { resume } from "../../cli/resume.ts";
import { makeTemporary, makeWritable } from "../../cli/writable-folder.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { recipe as tally } from "../../recipes/tally/recipe.ts";
import { chdirToProject, mgrpo, projectFolder } from "./command-line.ts";
import { printed, printedJson } from "./printed.ts";
import { recordRun } from "./recorded-run.ts";
import { config } from "./records.ts";

const folder = chdirToProject();

afterEach(() => vi.unstubAllEnvs());

test("in a working directory that has been deleted, making a folder ends", () => {
  const module = new URL("../../cli/writable-folder.ts", import.meta.url).href;
  const script = `
    const { makeFolder } = await import(${JSON.stringify(module)});
    const cwd = process.cwd();
    (await import("node:fs")).rmSync(cwd, { recursive: true });
    makeFolder("runs/a/logs");`;
  const tsx = new URL("../../node_modules/tsx/dist/esm/index.mjs", import.meta.url).href;
  mkdirSync("deleted");
  const { status, stderr } = spawnSync(process.execPath, ["--import", tsx, "--input-type=module", "-e", script], {
    ...{ cwd: join(folder, "deleted"), encoding: "utf8", timeout: 60_000 },
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
});

test("a folder is created if it can be written; if a file is in its way, it is refused, and the message says what to do", () => {
  makeWritable("new/results", "elsewhere");
  expect(existsSync("new/results")).toBe(true);
  writeFileSync("file", "");
  expect(() => makeWritable("file/results", "name another folder")).toThrow(
    expect.objectContaining({
      code: "storage-unwritable",
      message: "file/results cannot be written (ENOTDIR): name another folder",
    }),
  );
});

test("if the folder for temporary files does not exist, the message says to set TMPDIR", async () => {
  vi.stubEnv("TMPDIR", join(folder, "no-such-folder"));
  const message = expect.stringMatching(/no-such-folder takes no temporary files \(ENOENT\): set TMPDIR to a folder/);
  expect(() => makeTemporary("mgrpo-")).toThrow(expect.objectContaining({ code: "storage-unwritable", message }));
  await expect(checkEmbeddedCloud()).resolves.toMatchObject([{ state: "broken", found: message }]);
});

test("pretrain refuses before it trains: a target that cannot be written, and a model that it did not make", async () => {
  writeFileSync("taken", "");
  await expect(pretrain("tally", { to: "taken" })).rejects.toMatchObject({ code: "storage-unwritable" });
  const target = join("models-of-mine", "main");
  const record = join(target, "training.json");
  const refused = async (weights: string) => {
    writeFileSync(join(target, weights), "precious");
    await expect(pretrain("tally", { to: "models-of-mine", tokens: 1 })).rejects.toMatchObject({
      code: "config-invalid",
      message: expect.stringMatching(
        /main has a model that pretrain did not make: to write it elsewhere, name the parent folder: .* pretrain <recipe> --to <folder>$/,
      ),
    });
    expect(readFileSync(join(target, weights), "utf8")).toBe("precious");
  };
  mkdirSync(target, { recursive: true });
  await refused("model.safetensors");
  // As `mgrpo sft` writes it.
  writeFileSync(record, '{"seed":1,"tokens":500,"ended":"tokens","best":2}');
  await refused("model.safetensors");
  rmSync(join(target, "model.safetensors"));
  await refused("adapter_model.safetensors");
  rmSync(join(target, "adapter_model.safetensors"));
  rmSync(record);
  await refused("model.safetensors.index.json");
});

test("a base model whose folder has an adapter or shards is not missing", async () => {
  const [base] = tally.baseModels ?? [];
  if (!base) throw new Error("tally has no base models");
  const set = ["agents.main.model=models-of-mine/main"];
  const resolved = resolveConfig(tally, { run: "one", seed: 1, arm: "mgrpo", set });
  const recipe = { ...tally, baseModels: [{ ...base, folder: "models-of-mine/main" }] };
  for (const name of ["adapter_model.safetensors", "model.safetensors.index.json"]) {
    rmSync("models-of-mine", { recursive: true, force: true });
    mkdirSync("models-of-mine/main", { recursive: true });
    writeFileSync(join("models-of-mine", "main", name), "precious");
    await makeMissingModels("tally", recipe, resolved, { begins: () => true, checkStore: () => {} });
    expect(readdirSync(join("models-of-mine", "main"))).toEqual([name]);
  }
});

test("a comparison whose results cannot be written trains nothing", async () => {
  writeFileSync("results", "");
  await expect(printed("compare", "tally", "--arms", "mgrpo", "--seeds", "1", "--steps", "1")).rejects.toThrow(
    /results\S* cannot be written \(ENOTDIR\): run mgrpo in/,
  );
  rmSync("results");
  expect(existsSync("runs")).toBe(false);
});

test("the error for a `runs` that is a file names it", async () => {
  writeFileSync("runs", "");
  const { code, stderr } = await mgrpo(folder, "runs");
  rmSync("runs");
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^mgrpo: \S+runs cannot be read \(ENOTDIR: /)]);
});

test("a run that has begun and whose store is gone is neither shown as new nor begun again", async () => {
  await recordRun(folder);
  const { run } = config;
  rmSync(join("runs", run, "cloud"), { recursive: true });
  const gone = /the store of run '.*' is gone \(.*cloud\): restore it, or train another run under a new name/;
  await expect(resume(run, {})).rejects.toMatchObject({ code: "record-damaged", message: expect.stringMatching(gone) });
  await expect(printed("show", run)).rejects.toThrow(gone);
});

test("the error for a damaged file that resume recreates says to remove it", async () => {
  await recordRun(folder);
  writeFileSync(join("runs", config.run, "status.json"), "");
  await expect(resume(config.run, {})).rejects.toMatchObject({
    code: "record-damaged",
    message: expect.stringMatching(/status\.json: not JSON: remove this file, and resume the run to recreate it$/),
  });
});

test("a finished run whose steps were removed is still finished: its budget cannot be raised", async () => {
  await recordRun(folder);
  const path = join("runs", config.run);
  rmSync(join(path, "steps.jsonl"));
  writeFileSync(join(path, "report.json"), "{}");
  await expect(resume(config.run, { budgetHours: 9 })).rejects.toThrow(/is finished: its budget cannot be raised$/);
});

test("show and runs say where a damaged line of the steps is, and what to do", async () => {
  const project = projectFolder();
  await recordRun(project);
  const steps = join(project, "runs", config.run, "steps.jsonl");
  writeFileSync(steps, `${readFileSync(steps, "utf8")}{"step":\n`);
  const remedy = "remove this file, and resume the run to recreate it";
  process.chdir(project);
  onTestFinished(() => {
    process.chdir(folder);
    rmSync(project, { recursive: true });
  });
  await expect(printed("show", config.run)).rejects.toThrow(new RegExp(`steps\\.jsonl, line 2: not JSON: ${remedy}$`));
  expect(await printedJson("runs")).toMatchObject([
    {
      state: "damaged",
      reason: expect.stringMatching(new RegExp(`steps\\.jsonl, last line: not JSON: ${remedy}$`)),
    },
  ]);
});
