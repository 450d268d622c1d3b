/** @file Hints name the program by a command that the user can run. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { commandName, quoted, quotedPath } from "../../cli/terminal/name.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-name-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("in a checkout, the program is started with npm run in the root, and with the path of the entry point elsewhere", () => {
  writeFileSync(join(folder, "build.mjs"), "");
  const entry = join(folder, "dist/cli/mgrpo.js");
  expect(commandName({}, folder, entry)).toBe("npm run mgrpo --");
  expect(commandName({}, join(folder, "work"), entry)).toBe("node ../dist/cli/mgrpo.js");
});

test("a path with spaces is quoted", () => {
  const checkout = join(folder, "my checkout");
  mkdirSync(checkout);
  writeFileSync(join(checkout, "build.mjs"), "");
  expect(commandName({}, folder, join(checkout, "dist/cli/mgrpo.js"))).toBe('node "my checkout/dist/cli/mgrpo.js"');
});

test("a path with characters that a POSIX shell interprets is quoted, so that the command can be copied", () => {
  const paths = ["plain/päth-1.0", "my team", "R&D", "models (copy)", "it's", '$HOME/`b` "c"', "a;b", "~x", "文/*"];
  const script = `printf '%s\\n' ${paths.map(quotedPath).join(" ")}`;
  expect(execFileSync("sh", ["-c", script], { encoding: "utf8" })).toBe(`${paths.join("\n")}\n`);
  expect([quotedPath("plain/päth-1.0"), quotedPath("C:\\models\\mine")]).toEqual([
    "plain/päth-1.0",
    "C:\\models\\mine",
  ]);
});

test("a path with an exclamation mark is quoted for Bash with history expansion, as it is in a terminal", () => {
  const input = `set -o history -o histexpand\nprintf '%s\\n' ${quotedPath("new!/it's mine!")}\n`;
  expect(execFileSync("bash", { input, encoding: "utf8" })).toBe("new!/it's mine!\n");
});

test("an installed program is named alone where the shell finds it, and with npx otherwise", () => {
  const entry = join(folder, "node_modules/mgrpo/dist/cli/mgrpo.js");
  const bin = join(folder, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "mgrpo"), "");
  expect(commandName({ PATH: `/usr/bin:${bin}` }, folder, entry)).toBe("mgrpo");
  expect(commandName({ PATH: "/usr/bin" }, folder, entry)).toBe("npx mgrpo");
  // npx and npm scripts put node_modules/.bin on PATH, which the user's shell lacks.
  expect(commandName({ PATH: bin, npm_command: "exec" }, folder, entry)).toBe("npx mgrpo");
});

test("the quoted words of a command can be copied into a POSIX shell, even words that contain quotes", () => {
  const words = ["a", "x=1,2", "*", "it's", '$HOME `b` "c"', ""];
  const script = `printf '%s\\n' ${words.map(quoted).join(" ")}`;
  expect(execFileSync("sh", ["-c", script], { encoding: "utf8" })).toBe(`${words.join("\n")}\n`);
});
