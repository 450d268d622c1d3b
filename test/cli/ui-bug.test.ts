/** @file A bug in the dashboard: what its page can show, and what its terminal shows. */
import { expect, test, vi } from "vitest";
import { dashboardApp } from "../../cli/ui/app.ts";
import { openRunWatcher } from "../../cli/ui/watch-runs.ts";
import { Failure } from "../../ui/views.ts";

test("a bug is a failure that the page can show, and its stack trace goes to the terminal", async () => {
  const terminal = vi.spyOn(console, "error").mockReturnValue();
  const watcher = openRunWatcher(() => {});
  const broken = dashboardApp({ key: "a-key-for-tests-only", hosts: ["127.0.0.1"], watcher });
  broken.post("/bug", () => Promise.reject(new TypeError("a bug")));
  const headers = { cookie: "mgrpo-ui-4711=a-key-for-tests-only" };
  const response = await broken.request("http://127.0.0.1:4711/bug", { method: "POST", headers });
  expect(response.status).toBe(500);
  expect(Failure.parse(await response.json())).toEqual({
    code: "unexpected",
    message:
      "a bug in the dashboard: run `mgrpo ui` in a terminal and open this page through the link that it prints; the terminal then shows the error",
  });
  expect(terminal.mock.calls).toEqual([[new TypeError("a bug")]]);
  terminal.mockRestore();
  watcher.close();
});
