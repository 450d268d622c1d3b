/**
 * @file `mgrpo cloud serve`: what it shows, its environment file, and a port that it refuses. The file holds keys, so only its owner can read
 * it.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { activityText, observe, type StoreSnapshot } from "../../cli/cloud/activity.ts";
import { isOpenToOthers, writePrivateFile } from "../../cli/cloud/environment-file.ts";
import { serveCloud, showActivity } from "../../cli/cloud/serve.ts";
import { memoryStore } from "../fakes/memory-store.ts";

const folder = mkdtempSync(join(tmpdir(), "mgrpo-env-file-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the status line has the writes per second between two polls of the store, the runs, and the last event", () => {
  const snapshot = (
    seconds: number,
    writes: number,
    step: number,
    status: StoreSnapshot["runs"][number]["status"],
  ): StoreSnapshot => ({
    seconds,
    writes,
    runs: [{ run: "far", status, step }],
  });
  const first = observe(snapshot(10, 100, 0, "running"), undefined, undefined);
  expect(activityText(first, 10)).toBe("0.0 writes/s · 1 run, 1 running · no event yet");
  // 50 writes in 2 s
  const second = observe(snapshot(12, 150, 1, "running"), snapshot(10, 100, 0, "running"), first.lastEvent);
  expect(activityText(second, 15)).toBe("25.0 writes/s · 1 run, 1 running · far closed step 0, 3s ago");
  const third = observe(snapshot(14, 150, 1, "running"), snapshot(12, 150, 1, "running"), second.lastEvent);
  expect(third.lastEvent).toEqual(second.lastEvent);
  const last = observe(snapshot(16, 150, 2, "finished"), snapshot(14, 150, 1, "running"), third.lastEvent);
  expect(activityText(last, 16)).toBe("0.0 writes/s · 1 run, 0 running · far is finished, 0s ago");
});

test("only its owner can read the environment file, even if it replaces one that others could read", () => {
  const file = join(folder, "cloud.json");
  writeFileSync(file, "old");
  chmodSync(file, 0o644);
  writePrivateFile(file, "new");
  expect(readFileSync(file, "utf8")).toBe("new");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toEqual(["cloud.json"]);
  // As a killed process with the same pid leaves it.
  writeFileSync(`${file}.${process.pid}.tmp`, "half");
  writePrivateFile(file, "newer");
  expect(readFileSync(file, "utf8")).toBe("newer");
  expect(readdirSync(folder)).toEqual(["cloud.json"]);
  expect(() => writePrivateFile(join(folder, "nowhere", "cloud.json"), "new")).toThrow(
    expect.objectContaining({ code: "config-invalid", message: expect.stringMatching(/cannot be written: ENOENT/) }),
  );
  expect(existsSync(join(folder, "nowhere"))).toBe(false);
});

test("an environment file that cannot be written in full leaves the previous one as it is", () => {
  const inner = mkdtempSync(join(folder, "limited-"));
  const file = join(inner, "cloud.json");
  writeFileSync(file, "old");
  const module = new URL("../../cli/cloud/environment-file.ts", import.meta.url).href;
  const script = `import("${module}").then(({ writePrivateFile }) => writePrivateFile("${file}", "x".repeat(3000)))`;
  // Like a disk that is nearly full: of 3000 bytes, the first write takes 1024.
  const command = ["-c", 'ulimit -f 1; exec "$0" --import tsx -e "$1"', process.execPath, script];
  const { stderr } = spawnSync("bash", command, { encoding: "utf8" });
  expect(stderr).toContain("cannot be written: EFBIG");
  expect(readFileSync(file, "utf8")).toBe("old");
  expect(readdirSync(inner)).toEqual(["cloud.json"]);
  rmSync(inner, { recursive: true });
});

test("a path that names a folder, or is below a file, is refused like any other that cannot be written", () => {
  const inner = mkdtempSync(join(folder, "paths-"));
  const [taken, plain] = [join(inner, "folder"), join(inner, "file")];
  mkdirSync(taken);
  writeFileSync(plain, "");
  for (const file of [taken, join(plain, "cloud.json")]) {
    expect(() => writePrivateFile(file, "new")).toThrow(
      expect.objectContaining({
        code: "config-invalid",
        message: expect.stringContaining(`${file} cannot be written: E`),
      }),
    );
  }
  expect(readdirSync(inner).sort()).toEqual(["file", "folder"]);
  rmSync(inner, { recursive: true });
});

test.each([
  ["644", true],
  ["640", true],
  ["600", false],
])("a file of mode %s is open to others: %s", (mode, open) => {
  const file = join(folder, `out-${mode}`);
  writeFileSync(file, "");
  // The mode of a new file would depend on the umask.
  chmodSync(file, Number.parseInt(mode, 8));
  const descriptor = openSync(file, "r");
  expect(isOpenToOthers(descriptor)).toBe(open);
  closeSync(descriptor);
});

test("the status line reports that the list of runs cannot be read, and continues", async () => {
  const store = memoryStore();
  store.table.query = async () => Promise.reject(new Error("an unknown state"));
  const { isTTY, columns } = process.stderr;
  Object.assign(process.stderr, { isTTY: true, columns: 120 });
  const written: string[] = [];
  const spy = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  const stop = new AbortController();
  let hasEnded = false;
  try {
    const writes = () => ({ requests: 0, bytes: 0, units: 0 });
    const shown = showActivity({ store, writes }, stop.signal).finally(() => {
      hasEnded = true;
    });
    await expect.poll(() => written.join("")).toContain("unknown");
    expect(hasEnded).toBe(false);
    stop.abort();
    await shown;
  } finally {
    spy.mockRestore();
    Object.assign(process.stderr, { isTTY, columns });
  }
});

test("port 65535 leaves none above it for S3: the error names --s3-port, and no signal handler is left", async () => {
  const listeners = process.listenerCount("SIGINT");
  const serving = serveCloud({ host: "127.0.0.1", port: 65_535, dir: join(folder, "cloud") });
  await expect(serving).rejects.toMatchObject({
    code: "config-invalid",
    message: expect.stringContaining("--s3-port"),
  });
  expect(process.listenerCount("SIGINT")).toBe(listeners);
});
