/** @file `mgrpo cloud serve --ui-port`: the dashboard of the served store. The key in its link stays the same after a restart. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, test } from "vitest";
import { serveUi } from "./served-ui.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const here = mkdtempSync(join(tmpdir(), "mgrpo-cloud-ui-"));
afterAll(() => rmSync(here, { recursive: true, force: true }));

test("the dashboard requires the key in its link, and the key survives a restart", { timeout: 240_000 }, async () => {
  const keys: (string | null)[] = [];
  for (const _ of [1, 2]) {
    const ui = await serveUi(here, ["cloud", "serve", "--port", "0", "--ui-port", "0"], /^dashboard: (.*)$/);
    expect(await ui.view("/runs")).toEqual({ runs: [], failure: null });
    const { origin, searchParams } = new URL(ui.link);
    expect((await fetch(`${origin}/api/runs`)).status).toBe(401);
    keys.push(searchParams.get("key"));
    await ui.close();
  }
  expect(keys[0]?.length).toBeGreaterThan(40);
  expect(keys[1]).toBe(keys[0]);
});

test("the dashboard starts if the program's path has spaces and non-ASCII letters", { timeout: 240_000 }, async () => {
  const root = join(here, "my project é");
  mkdirSync(root);
  for (const part of ["dist", "package.json"]) cpSync(join(ROOT, part), join(root, part), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"), "junction");
  const args = ["cloud", "serve", "--port", "0", "--ui-port", "0", "--dir", join(here, "other")];
  const ui = await serveUi(here, args, /^dashboard: (.*)$/, root);
  expect(await ui.view("/runs")).toEqual({ runs: [], failure: null });
  await ui.close();
});
