/** @file The journal of events on a disk that is temporarily full. */
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openJournal } from "../../../adapters/local-cloud/journal.ts";
import { writeAll } from "../../../adapters/local-cloud/s3/receive.ts";

vi.mock("../../../adapters/local-cloud/s3/receive.ts", async (original) => {
  const actual = await original<typeof import("../../../adapters/local-cloud/s3/receive.ts")>();
  return { ...actual, writeAll: vi.fn(actual.writeAll) };
});

test("an event that could not be announced does not keep an idle journal from being truncated", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-journal-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, "events");
  const created: number[] = [];
  const journal = await openJournal(path, ({ id }) => created.push(id));
  vi.mocked(writeAll).mockImplementationOnce(() => {
    throw Object.assign(new Error("the disk is full"), { code: "ENOSPC" });
  });
  expect(() => journal.announce({ bucket: "b", key: "lost" })).toThrow("the disk is full");
  // This line alone reaches the size at which an idle journal is truncated.
  journal.announce({ bucket: "b", key: "k".repeat(2 ** 20) })(true);
  expect((await stat(path)).size).toBeGreaterThan(2 ** 20);
  for (const id of created) journal.handled(id);
  expect((await stat(path)).size).toBe(0);
  journal.close();
});
