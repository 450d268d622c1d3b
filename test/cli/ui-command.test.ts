/** @file `mgrpo ui`: if it cannot start, it says why and ends; otherwise its link opens the dashboard, and `--open` a browser. */
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { mgrpoWith, projectOfFile, startMgrpoWith } from "./command-line.ts";

const folder = projectOfFile();
/** A command that fails to end is stopped when this process ends. */
const DEPENDENT = { MGRPO_PARENT: "1" };

test("a port that is in use is refused", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = String(typeof address === "object" ? address?.port : "");
  const { stderr, code } = await mgrpoWith(DEPENDENT, folder, "ui", "--port", port);
  server.close();
  expect(stderr).toContain(`mgrpo: port ${port} on 127.0.0.1 is in use: pass another --port, or 0 for any free one`);
  expect(code).toBe(1);
});

test("the printed link opens the dashboard, whatever characters the user's key has and whatever case the host is in", async () => {
  const key = "a+b&c#d%e/f=g h and sixteen more";
  const child = startMgrpoWith({ ...DEPENDENT, MGRPO_UI_KEY: key }, folder, "ui", "--host", "LocalHost");
  const ended = once(child, "exit");
  if (!child.stdout) throw new Error("no output");
  const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const { link } = JSON.parse(value);
  const { status } = await fetch(link, { redirect: "manual" });
  child.kill("SIGTERM");
  await ended;
  expect(status).toBe(302);
});

test("the browser is started with a link that works once: every user can read the arguments of a process", async () => {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  // As Linux and macOS name the command.
  for (const name of ["xdg-open", "open"])
    writeFileSync(
      join(bin, name),
      `#!/bin/sh\nprintf %s "$1" > "${bin}/writing" && mv "${bin}/writing" "${bin}/link"\n`,
      {
        mode: 0o755,
      },
    );
  const PATH = `${bin}:${process.env["PATH"]}`;
  const child = startMgrpoWith({ ...DEPENDENT, PATH }, folder, "ui", "--open");
  const ended = once(child, "exit");
  if (!child.stdout) throw new Error("no output");
  const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const { link } = JSON.parse(value);
  await expect.poll(() => existsSync(join(bin, "link"))).toBe(true);
  const opened = readFileSync(join(bin, "link"), "utf8");
  const statusOf = async (url: string) => (await fetch(url, { redirect: "manual" })).status;
  const statuses = [await statusOf(opened), await statusOf(opened), await statusOf(link), await statusOf(link)];
  child.kill("SIGTERM");
  await ended;
  expect(opened.split("?")[0]).toBe(link.split("?")[0]);
  expect(statuses).toEqual([302, 401, 302, 302]);
});

test("a key that is too short is refused", async () => {
  const { stderr, code } = await mgrpoWith({ ...DEPENDENT, MGRPO_UI_KEY: "short" }, folder, "ui");
  expect(stderr).toContain("mgrpo: MGRPO_UI_KEY: must have at least 24 characters");
  expect(code).toBe(1);
});
