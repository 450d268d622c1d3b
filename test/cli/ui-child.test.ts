/** @file The link that the dashboard's process prints, and processes that print none. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test, vi } from "vitest";
import { linkOf, openDashboard } from "../../cli/ui/child.ts";
import { setEnvironment } from "../fakes/environment.ts";
import { chdirToProject } from "./command-line.ts";

chdirToProject();

const link = "http://127.0.0.1:8080/?key=k";
const serving = `console.log(${JSON.stringify(JSON.stringify({ kind: "serving", link }))})`;

/** @param script what the child runs. The child stays alive unless the script ends it. */
async function linkFrom(script: string, seconds?: number): Promise<string | undefined> {
  const child = spawn(process.execPath, ["-e", `${script}; setInterval(() => {}, 1000)`], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  try {
    return await linkOf(child, seconds);
  } finally {
    const exited = once(child, "exit");
    if (child.exitCode === null && child.kill("SIGKILL")) await exited;
  }
}

test("the link is in the first line", async () => {
  expect(await linkFrom(serving, 200)).toBe(link);
});

test.each([
  ["prints text first", `console.log("listening"); ${serving}`],
  ["prints JSON of another kind first", `console.log(JSON.stringify({ kind: "note" })); ${serving}`],
  ["ends without printing", "process.exit(0)"],
])("a child that %s has no link", async (_what, script) => {
  expect(await linkFrom(script)).toBeUndefined();
});

test("a child that takes too long has no link", async () => {
  expect(await linkFrom("", 0.05)).toBeUndefined();
});

test("if a run's dashboard cannot start, there is no link, and a warning says how to see why", async () => {
  const restore = setEnvironment({ MGRPO_UI_KEY: "short" });
  const warned = vi.spyOn(console, "error").mockImplementation(() => {});
  try {
    expect(await openDashboard("one", true)).toBeUndefined();
    expect(warned.mock.calls).toEqual([[expect.stringMatching(/^warning: the dashboard did not start; .* ui one$/)]]);
  } finally {
    warned.mockRestore();
    restore();
  }
});
