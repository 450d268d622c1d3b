/** @file Settings of the hub, from the variables of Hugging Face's Python library. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { cacheFolder } from "../../../../adapters/checkpoints/cache.ts";
import { hubSettings } from "../../../../adapters/checkpoints/hub/settings.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "mgrpo-hub-"));
});
afterEach(() => rmSync(home, { recursive: true }));

test("the cache and the saved token are where the environment variables say", () => {
  const at = (environment: Record<string, string>) => hubSettings(environment).cache;
  expect(at({ HF_HUB_CACHE: "/a", HF_HOME: "/b" })).toBe("/a");
  expect(at({ HF_HOME: "/b" })).toBe("/b/hub");
  expect(at({ XDG_CACHE_HOME: "/c" })).toBe("/c/huggingface/hub");
  writeFileSync(join(home, "token"), "hf_saved\n");
  expect(hubSettings({ HF_HOME: home }).token).toBe("hf_saved");
});

test("paths are expanded as Python expands them; an empty variable counts as unset", () => {
  const at = (environment: Record<string, string>) => hubSettings(environment).cache;
  expect(at({ HF_HOME: "~/models" })).toBe(join(homedir(), "models", "hub"));
  expect(at({ HF_HUB_CACHE: `/x/$NAME/\${NAME}/$NONE`, NAME: "a" })).toBe("/x/a/a/$NONE");
  expect(at({ HF_HUB_CACHE: "", HF_HOME: "", XDG_CACHE_HOME: "" })).toBe(
    join(homedir(), ".cache", "huggingface", "hub"),
  );
  expect(cacheFolder({ MGRPO_CACHE: "", XDG_CACHE_HOME: "" })).toBe(join(homedir(), ".cache", "mgrpo"));
});

test("a value that is not a token is refused, and the message names its file or variable", () => {
  const remedy = "create one at https://huggingface.co/settings/tokens, or remove";
  const saved = join(home, "token");
  writeFileSync(saved, "secret");
  const refused = (environment: Record<string, string>, place: string) =>
    expect(() => hubSettings({ HF_HOME: home, ...environment })).toThrow(
      `${place} does not hold a Hugging Face token, which starts with hf_ and has no spaces: ${remedy} ${place}`,
    );
  refused({}, saved);
  refused({ HF_TOKEN: "secret" }, "HF_TOKEN");
  // No header can hold the first two.
  for (const token of ["hf_a\nb", "hf_a…", "hf_a b", "hf_"]) refused({ HF_TOKEN: token }, "HF_TOKEN");
  refused({ HUGGING_FACE_HUB_TOKEN: "secret" }, "HUGGING_FACE_HUB_TOKEN");
  expect(hubSettings({ HF_HOME: home, HF_TOKEN: "", HUGGING_FACE_HUB_TOKEN: "hf_old" }).token).toBe("hf_old");
});

test("an endpoint with a password, or that is not an http or https URL, is refused before a request, and the message does not repeat it", () => {
  for (const endpoint of ["http://user:secret@mirror.lan", "https://secret@mirror.lan/hf", "user:secret@mirror.lan"])
    expect(() => hubSettings({ HF_HOME: home, HF_ENDPOINT: endpoint })).toThrow(
      expect.objectContaining({
        code: "config-invalid",
        message: expect.stringMatching(/^HF_ENDPOINT must be (?!.*(secret|mirror\.lan))/),
      }),
    );
  expect(hubSettings({ HF_HOME: home, HF_ENDPOINT: "https://mirror.lan/hf/" }).url).toBe("https://mirror.lan/hf");
});

test("a token file that cannot be read is an error that names it; a token in a variable needs no file", () => {
  const saved = join(home, "token");
  mkdirSync(saved);
  expect(() => hubSettings({ HF_HOME: home })).toThrow(
    expect.objectContaining({
      code: "config-invalid",
      message: expect.stringMatching(/token cannot be read \(EISDIR.*\): make it a file that .*, or set HF_TOKEN$/),
    }),
  );
  expect(hubSettings({ HF_HOME: home, HF_TOKEN: "hf_set" }).token).toBe("hf_set");
});
