/**
 * @file A command whose output is no longer read (`mgrpo show run | head -1`, a closed terminal) exits with code 0 and no error message. One whose
 * output cannot be written ends with a message.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { resolve } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { beforeAll, expect, test } from "vitest";
import { projectOfFile } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { config } from "./records.ts";

const folder = projectOfFile();
const SHOW = [resolve(import.meta.dirname, "../../dist/cli/mgrpo.js"), "show", config.run];

beforeAll(() => recordRun(folder));

/** What a child writes to stderr, and how it exits. */
async function ended(child: ChildProcessByStdio<null, Readable, Readable>): Promise<unknown[]> {
  const [errors, exit] = await Promise.all([text(child.stderr), once(child, "exit")]);
  return [errors, ...exit];
}

test("a closed pipe is not an error", async () => {
  const child = spawn(process.execPath, SHOW, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  expect(await ended(child)).toEqual(["", 0, null]);
});

/** Each write fails as it does on a terminal that was closed. */
const CLOSED_TERMINAL = `process.stdout.write = () => {
  process.nextTick(() => {
    process.stdout.isTTY = true;
    process.stdout.emit("error", Object.assign(new Error("write EIO"), { code: "EIO" }));
  });
  return true;
};`;

test("a closed terminal is not an error", async () => {
  const preload = `--import=data:text/javascript,${encodeURIComponent(CLOSED_TERMINAL)}`;
  const child = spawn(process.execPath, [preload, ...SHOW], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.resume();
  expect(await ended(child)).toEqual(["", 0, null]);
});

test.skipIf(!existsSync("/dev/full"))("a full disk ends the command with one line", async () => {
  const full = openSync("/dev/full", "w");
  const child = spawn(process.execPath, SHOW, { cwd: folder, stdio: ["ignore", full, "pipe"] });
  const [errors, exit] = await Promise.all([text(child.stderr as Readable), once(child, "exit")]);
  closeSync(full);
  expect(errors).toBe("mgrpo: the output cannot be written (ENOSPC): free some space [disk-full]\n");
  expect(exit).not.toEqual([0, null]);
});
