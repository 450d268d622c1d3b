/**
 * @file Opening a recipe's tools and app. Settings are refused for tools that take none. What is malformed or throws is refused, and the error
 * names the file.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import type { ToolsOpening } from "../../core/recipe.ts";
import { resolveConfig } from "../../core/training/resolve-config.ts";
import { recipe as atlas } from "../../recipes/atlas/recipe.ts";
import { openRollout, openTools, openToolsModule } from "../../recipes/registry.ts";

const folder = mkdtempSync(join(tmpdir(), "recipe-"));
afterAll(() => rmSync(folder, { recursive: true }));

const configOf = (recipe: string) => ({ ...resolveConfig(atlas, { run: "any", seed: 1, arm: "mgrpo" }), recipe });

test("tools that take settings are opened with them; settings for tools that take none are refused", async () => {
  const opening = (tools: Record<string, string>) => ({ config: { ...configOf("atlas"), tools }, environment: {} });
  const ofAtlas = await openToolsModule("atlas");
  expect((await openTools(ofAtlas, opening({}))).tools).toBe(ofAtlas.tools);
  await expect(openTools(ofAtlas, opening({ place: "here" }))).rejects.toMatchObject({
    code: "config-invalid",
    message: "tools.place: the tools of recipe 'atlas' take no settings: remove it",
  });
  await expect(openTools(ofAtlas, opening({ place: "here", time: "now" }))).rejects.toThrow(
    "tools.place, tools.time: the tools of recipe 'atlas' take no settings: remove them",
  );
  const opened = { tools: new Map(), close: async () => {} };
  const module = {
    tools: async ({ config }: ToolsOpening) => (config.tools["place"] === "here" ? opened : expect.fail()),
  };
  expect(await openTools(module, opening({ place: "here" }))).toBe(opened);
});

test.each([
  ["[]", /'tools' is not a Map: write new Map\(\[\[tool\.name, tool\]\]\)/],
  ["{ lookup: {} }", /'tools' is not a Map/],
  ["async () => new Map()", /tools\(\) does not return \{ tools, close \}/],
  ["() => {}", /tools\(\) does not return/],
])("tools that are %s are refused when they are opened", async (exported, message) => {
  const own = mkdtempSync(join(folder, "faulty-"));
  writeFileSync(join(own, "tools.mjs"), `export const tools = ${exported};`);
  const opened = openTools(await openToolsModule(own), { config: configOf(own), environment: {} });
  await expect(opened).rejects.toMatchObject({ code: "recipe-invalid", message: expect.stringMatching(message) });
});

test("an exception in the function that opens tools is the recipe's error; a retry may help, and an MgrpoError is kept", async () => {
  const own = mkdtempSync(join(folder, "faulty-"));
  writeFileSync(
    join(own, "tools.mjs"),
    `export const tools = async ({ environment }) => {
      throw environment.KEY ?? new TypeError("fetch failed");
    };`,
  );
  const open = async (environment: object) =>
    openTools(await openToolsModule(own), { config: configOf(own), environment: { ...environment } });
  await expect(open({})).rejects.toMatchObject({
    code: "recipe-invalid",
    retryable: true,
    message: expect.stringMatching(/tools\.mjs: tools\(\) threw TypeError: fetch failed \(at .*tools\.mjs:2:\d+\)$/),
  });
  const refusal = new MgrpoError("config-invalid", "tools.key is missing");
  await expect(open({ KEY: refusal })).rejects.toBe(refusal);
});

test("an app that is not a function is refused when it is opened", async () => {
  const own = mkdtempSync(join(folder, "faulty-"));
  writeFileSync(join(own, "rollout.mjs"), "export const rollout = { answer: 'Peru' };");
  await expect(openRollout(own)).rejects.toMatchObject({
    code: "recipe-invalid",
    message: expect.stringMatching(/^rollout\.ts of recipe '.*': 'rollout' is not a function/),
  });
});
