/** @file The memory watch: it kills a process that holds too much outside V8's heap, or whose parent is gone, even while that process is busy. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { builtModule } from "../../../../built-module.ts";

/** Fills buffers of 20 MB, in one synchronous loop. With more than 50 of them, it stays busy until it is killed. */
const HOG = `
  import { Worker } from "node:worker_threads";
  const [, watch, buffers] = process.argv;
  const thread = new Worker(new URL(watch), { execArgv: [] });
  thread.once("message", () => {
    const held = Array.from({ length: Number(buffers) }, () => Buffer.alloc(20e6, 1));
    while (held.length > 50);
    process.exit(held.length === Number(buffers) ? 0 : 1);
  });
`;

test.each([
  [10, 0, null],
  [75, null, "SIGKILL"],
])("a process with %i buffers of 20 MB ends with exit code %s, signal %s", async (buffers, code, signal) => {
  const watch = builtModule("adapters/tools/documents/memory-watch").href;
  const hog = spawn(process.execPath, ["--input-type=module", "--eval", HOG, watch, String(buffers)]);
  onTestFinished(() => void hog.kill("SIGKILL"));
  expect(await once(hog, "exit")).toEqual([code, signal]);
});

/** Watched as on Windows, where an orphan keeps the id of its parent: here `parent`. Busy until it is killed, or for 3 seconds. */
const ORPHAN = `
  import { Worker } from "node:worker_threads";
  const [, watch, parent] = process.argv;
  const code = "globalThis.process = Object.create(process, { ppid: { value: " + parent + " } }); import('" + watch + "')";
  const thread = new Worker(code, { eval: true, execArgv: [] });
  thread.once("message", () => {
    const until = Date.now() + 3000;
    while (Date.now() < until);
    process.exit();
  });
`;

test("a process whose parent is gone is killed, even if it keeps the parent's id; one whose parent is alive is not", async () => {
  const watch = builtModule("adapters/tools/documents/memory-watch").href;
  const { pid } = spawnSync(process.execPath, ["--version"]);
  const start = (parent: number) =>
    spawn(process.execPath, ["--input-type=module", "--eval", ORPHAN, watch, String(parent)]);
  const [orphan, other] = [start(pid), start(process.pid)];
  onTestFinished(() => void [orphan, other].map((one) => one.kill("SIGKILL")));
  expect(await Promise.all([once(orphan, "exit"), once(other, "exit")])).toEqual([
    [null, "SIGKILL"],
    [0, null],
  ]);
});
