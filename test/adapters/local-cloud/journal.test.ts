/** @file The journal of events: how large it grows, even on a disk that is temporarily full, and what the next start finds in it. */
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openJournal } from "../../../adapters/local-cloud/journal.ts";
import { writeAll } from "../../../adapters/local-cloud/s3/receive.ts";

vi.mock("../../../adapters/local-cloud/s3/receive.ts", async (original) => {
  const actual = await original<typeof import("../../../adapters/local-cloud/s3/receive.ts")>();
  return { ...actual, writeAll: vi.fn(actual.writeAll) };
});

/** The path of a journal in a folder that lasts until the test ends. */
async function journalPath(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "mgrpo-journal-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, "events");
}

const key = (name: string) => `runs/r/${name}${"k".repeat(1000)}`;

test("a journal that always has a pending event does not grow without bound, and loses no pending event", async () => {
  const path = await journalPath();
  const journal = await openJournal(path, () => {});
  journal.announce({ bucket: "b", key: key("never handled") })(true);
  for (let i = 0; i < 5000; i++) {
    journal.announce({ bucket: "b", key: key(`${i}`) })(true);
    // Handled once the next one is announced.
    if (i > 0) journal.handled(i + 1);
  }
  expect((await stat(path)).size).toBeLessThan(2 * 2 ** 20);
  journal.close();
  const { unhandled, close } = await openJournal(path, () => {});
  close();
  expect(unhandled.map((event) => [event.id, event.key])).toEqual([
    [1, key("never handled")],
    [5001, key("4999")],
  ]);
});

test("a journal that cannot be compacted keeps its old lines and takes new ones", async () => {
  const path = await journalPath();
  const journal = await openJournal(path, () => {});
  await mkdir(`${path}.new`);
  await writeFile(join(`${path}.new`, "in the way"), "");
  const announced = Array.from({ length: 1100 }, (_, i) => journal.announce({ bucket: "b", key: key(`${i}`) }));
  for (const settle of announced.slice(1)) settle(false);
  announced[0]?.(true);
  journal.close();
  expect(await readFile(path, "utf8")).toMatch(/^\+ 1 .*\n[\s\S]*\n- 1100\n$/);
});

test("an event that could not be announced does not keep an idle journal from being truncated", async () => {
  const path = await journalPath();
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
