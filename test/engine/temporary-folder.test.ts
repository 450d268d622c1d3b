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

test("folders of dead processes are deleted; those of live processes and of other hosts stay", () => {
  const named = (host: string, pid: number, suffix: string) => {
    const folder = join(parent, `mgrpo-quantized-${host}-${pid}-${suffix}`);
    mkdirSync(join(folder, "0-int4"), { recursive: true });
    return folder;
  };
  named(hostname(), GONE, "aaaaaa");
  // In a restarted container, this process may have the id of the killed one. The folder is older than the process.
  utimesSync(named(hostname(), process.pid, "bbbbbb"), 0, 0);
  const kept = [
    named(hostname(), process.pid, "cccccc"),
    named(hostname(), process.ppid, "dddddd"),
    named("elsewhere", GONE, "eeeeee"),
    named(`${hostname()}-1`, GONE, "ffffff"),
  ];
  // A link is not followed, so it is deleted even though its target does not exist.
  symlinkSync("nowhere", join(parent, `mgrpo-quantized-${hostname()}-${GONE}-gggggg`));
  const created = makeTemporaryFolder(parent);
  expect(readdirSync(parent).sort()).toEqual([...kept, created].map((folder) => basename(folder)).sort());
});
