/**
 * @file `mgrpo sft` killed with SIGKILL, twice: between a checkpoint's files and the record that names them, and while it trains. The same
 * command then ends with the files of an undisturbed run, byte for byte.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sha256 } from "../../engine/hash.ts";
import { mgrpo, mgrpoWith, projectOfFile } from "./command-line.ts";

const TIMEOUT = 480_000;
const EVALUATE_EVERY = 3;
const folder = projectOfFile();
const demonstrations = join(folder, "demonstrations.jsonl");
const conversations = Array.from({ length: 24 }, (_, i) => [
  { role: "user", content: `What follows ${i}?` },
  { role: "assistant", content: String(i + 1) },
]);
writeFileSync(demonstrations, conversations.map((messages) => JSON.stringify({ messages })).join("\n"));

/** One demonstration a step, on the default engine. */
const sft = (to: string): string[] => [
  ...["sft", "atlas", "--to", to, "--agent", "searcher", "--demonstrations", demonstrations],
  ...["--batch-tokens", "1", "--epochs", "2", "--held-out", "0.2", "--evaluate-every", String(EVALUATE_EVERY)],
];

const hashesOf = (to: string) => {
  const files = readdirSync(join(folder, to, "searcher")).sort();
  return Object.fromEntries(files.map((file) => [file, sha256(readFileSync(join(folder, to, "searcher", file)))]));
};

test("sft that is killed between a checkpoint and its record, and again while it trains, ends with the bytes of an undisturbed run", {
  timeout: 2 * TIMEOUT,
}, async () => {
  expect(await mgrpo(folder, ...sft("whole"))).toMatchObject({ code: 0 });

  const state = join(folder, "killed/.sft/searcher");
  const savedStep = (): number => JSON.parse(readFileSync(join(state, "progress.json"), "utf8")).newest.step;
  const preload = new URL("../fixtures/killed-at-rename.mjs", import.meta.url).href;
  const killedAt = (place: string) =>
    mgrpoWith({ NODE_OPTIONS: `--import=${preload}`, MGRPO_TEST_KILL: place }, folder, ...sft("killed"));
  expect(await killedAt("progress.json:1")).toMatchObject({ code: null });
  expect(savedStep()).toBe(EVALUATE_EVERY);
  expect(readdirSync(state)).toContain(`step-${2 * EVALUATE_EVERY}`);

  // 20 ms after the next checkpoint, when some 30 steps are left.
  expect(await killedAt("progress.json:0:20")).toMatchObject({ code: null });
  expect(savedStep()).toBeGreaterThan(EVALUATE_EVERY);
  expect(existsSync(join(folder, "killed/searcher"))).toBe(false);

  const { code, stderr } = await mgrpo(folder, ...sft("killed"));
  expect(code).toBe(0);
  expect(Number(/searcher: resumes after step (\d+)/.exec(stderr)?.[1])).toBeGreaterThan(EVALUATE_EVERY);
  expect(hashesOf("killed")).toEqual(hashesOf("whole"));
  expect(Object.keys(hashesOf("whole"))).toContain("model.safetensors");
});
