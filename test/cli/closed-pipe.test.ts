/** @file A command whose output nobody reads any more (`mgrpo show run | head -1`) exits with code 0 and no error message. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { projectOfFile } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { config } from "./records.ts";

const folder = projectOfFile();

test("a closed pipe is no error", async () => {
  await recordRun(folder);
  const command = resolve(import.meta.dirname, "../../dist/cli/mgrpo.js");
  const child = spawn(process.execPath, [command, "show", config.run], { cwd: folder });
  child.stdout.destroy();
  const [errors, ended] = await Promise.all([text(child.stderr), once(child, "exit")]);
  expect([errors, ...ended]).toEqual(["", 0, null]);
});
