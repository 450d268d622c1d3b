/**
 * @file The runs that the tests of the dashboard show, made once: `demo`, three steps of the default recipe, and `tiny`, whose texts are
 * hostile. Without a browser, neither is made and the tests that need one are skipped. If MGRPO_DEMO names the folder of a run
 * like `demo`, it is copied instead of trained.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { TestProject } from "vitest/node";
import { findChromium, HOW_TO_GET_CHROMIUM } from "../../docs/make/chromium.ts";
import { recordRun } from "../cli/recorded-run.ts";
import { HOSTILE_RECIPE, hostileRun } from "./hostile-run.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The browser's path; empty: there is none. */
    readonly chromium: string;
    /** The folder whose `runs` holds `demo` and `tiny`. */
    readonly project: string;
  }
}

const COMMAND = resolve(import.meta.dirname, "../../dist/cli/mgrpo.js");
const SUITES = 'evaluation.suites=[{"name":"held-out","questions":32}]';

export async function setup({ provide }: TestProject) {
  const chromium = findChromium() ?? "";
  const project = mkdtempSync(join(tmpdir(), "mgrpo-ui-"));
  const removeProject = () => rmSync(project, { recursive: true, force: true });
  provide("chromium", chromium);
  provide("project", project);
  if (chromium === "") console.log(`No browser found, so the tests that need one are skipped: ${HOW_TO_GET_CHROMIUM}`);
  else
    await recordRuns(project).catch((error: unknown) => {
      removeProject();
      throw error;
    });
  return removeProject;
}

async function recordRuns(project: string): Promise<void> {
  const { MGRPO_DEMO: trained } = process.env;
  const args = ["train", "recipes/atlas", "--steps", "3", "--seed", "7", "--run", "demo", "--set", SUITES];
  if (trained) cpSync(trained, join(project, "runs/demo"), { recursive: true });
  else execFileSync(process.execPath, [COMMAND, ...args], { cwd: project, stdio: ["ignore", "ignore", "inherit"] });
  mkdirSync(join(project, "hostile"));
  writeFileSync(join(project, "hostile/recipe.mjs"), HOSTILE_RECIPE);
  await recordRun(project, hostileRun);
}
