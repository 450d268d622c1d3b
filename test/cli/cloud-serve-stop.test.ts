/** @file `mgrpo cloud serve`, stopped while its dashboard starts, or because its folder is moved. */
import { mkdirSync, renameSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { serveCloud } from "../../cli/cloud/serve.ts";
import { chdirToProject } from "./command-line.ts";

const child = vi.hoisted(() => ({ isStopped: true }));
vi.mock("../../cli/ui/child.ts", () => ({
  // Ctrl-C reaches both processes, so the dashboard prints no link.
  startDashboard: async () => void (child.isStopped && process.emit("SIGINT")),
}));

const folder = chdirToProject();

test("Ctrl-C while the dashboard starts ends the command without an error; without Ctrl-C, a dashboard that does not start is an error that names --ui-port", async () => {
  const print = vi.spyOn(console, "log").mockImplementation(() => {});
  const options = { host: "127.0.0.1", port: 0, dir: join(folder, "cloud"), uiPort: 7430 };
  await serveCloud(options);
  child.isStopped = false;
  await expect(serveCloud(options)).rejects.toThrow("--ui-port 7430: the dashboard did not start");
  print.mockRestore();
});

test("serving stops when its folder is moved, and continues from the folder that is put back", async () => {
  const print = vi.spyOn(console, "log").mockImplementation(() => {});
  const [dir, elsewhere] = [join(folder, "served"), join(folder, "moved")];
  const serving = serveCloud({ host: "127.0.0.1", port: 0, dir });
  await vi.waitFor(() => expect(print).toHaveBeenCalledTimes(1));
  renameSync(dir, elsewhere);
  // As a write of the store can.
  mkdirSync(dir);
  await expect(serving).rejects.toThrow(`${dir} was moved or deleted while it was served, so serving has stopped: put`);
  rmdirSync(dir);
  renameSync(elsewhere, dir);
  const again = serveCloud({ host: "127.0.0.1", port: 0, dir });
  await vi.waitFor(() => expect(print).toHaveBeenCalledTimes(2));
  process.emit("SIGINT");
  await again;
  expect(print.mock.calls[1]?.[0]).toContain(JSON.parse(print.mock.calls[0]?.[0] ?? "").AWS_SECRET_ACCESS_KEY);
  print.mockRestore();
});
