/** @file The temporary folder of quantized weights: the next process deletes what a killed one left behind, and nothing else. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { makeTemporaryFolder } from "../../engine/compiled/quantization/temporary-folder.ts";

/** No system assigns process ids this large. */
const GONE = 2 ** 30;
const parent = mkdtempSync(join(tmpdir(), "mgrpo-temporary-folder-"));
afterAll(() => rmSync(parent, { recursive: true, force: true }));

test("folders of processes that are gone are deleted; those of live ones and of other hosts stay", () => {
  const named = (host: string, pid: number, suffix: string) => {
    const folder = join(parent, `mgrpo-quantized-${host}-${pid}-${suffix}`);
    mkdirSync(join(folder, "0-int4"), { recursive: true });
    return folder;
  };
  named(hostname(), GONE, "aaaaaa");
  // A container's process may have the id of the killed one that it replaces.
  utimesSync(named(hostname(), process.pid, "bbbbbb"), 0, 0);
  const kept = [
    named(hostname(), process.pid, "cccccc"),
    named(hostname(), process.ppid, "dddddd"),
    named("elsewhere", GONE, "eeeeee"),
    named(`${hostname()}-1`, GONE, "ffffff"),
  ];
  // A link is judged by its own owner, whether its target exists or not.
  symlinkSync("nowhere", join(parent, `mgrpo-quantized-${hostname()}-${GONE}-gggggg`));
  const created = makeTemporaryFolder(parent);
  expect(readdirSync(parent).sort()).toEqual([...kept, created].map((folder) => basename(folder)).sort());
});
