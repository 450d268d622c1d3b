/** @file A command of a user that the system does not know, without HOME, such as a service with a uid of its own. */
import { beforeAll, expect, test } from "vitest";
import { mgrpoWith, projectOfFile } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { config } from "./records.ts";

const folder = projectOfFile();
const preload = new URL("../fixtures/no-home.mjs", import.meta.url).href;
const NO_HOME = { HOME: undefined, XDG_CACHE_HOME: undefined, NODE_OPTIONS: `--import=${preload}` };

beforeAll(() => recordRun(folder));

test("a run can be shown without a home directory", async () => {
  const { code, stdout, stderr } = await mgrpoWith(NO_HOME, folder, "show", config.run, "0/0/0");
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).not.toBe("");
});

test("a model of the Hub is looked for in the cache that HOME=/ has", async () => {
  const more = { HF_HOME: undefined, HF_HUB_CACHE: undefined, HUGGINGFACE_HUB_CACHE: undefined, HF_HUB_OFFLINE: "1" };
  const { stderr } = await mgrpoWith({ ...NO_HOME, ...more }, folder, "doctor", "--model", "hf:some/model");
  expect(stderr).toMatch(/^mgrpo: .*\/\.cache\/huggingface\/hub/);
});
