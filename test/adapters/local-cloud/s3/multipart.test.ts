/** @file Multipart uploads: concurrent requests release the bytes of a part once; only what was uploaded is joined; startup removes abandoned uploads. */
import { readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openDiskSpace } from "../../../../adapters/local-cloud/disk-space.ts";
import { openJournal } from "../../../../adapters/local-cloud/journal.ts";
import { openMultipartUploads } from "../../../../adapters/local-cloud/s3/multipart.ts";
import { openObjectFiles } from "../../../../adapters/local-cloud/s3/object-files.ts";
import { receiveBytes } from "../../../../adapters/local-cloud/s3/receive.ts";
import { freshDirectory } from "../../../fakes/local-store.ts";

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

/** Uploads in a directory of their own, and the bytes that they have released. */
async function open() {
  const directory = await freshDirectory();
  const released: number[] = [];
  const space = { ...(await openDiskSpace(directory)), release: (bytes: number) => void released.push(bytes) };
  const journal = await openJournal(join(directory, "events"), () => {});
  cleanUps.push(() => {
    journal.close();
    rmSync(directory, { recursive: true });
  });
  const objects = await openObjectFiles({ directory, space, journal });
  const start = () => openMultipartUploads(directory, objects, space);
  const uploads = await start();
  return {
    uploads,
    released,
    start,
    folder: join(directory, "uploads"),
    begin: () => uploads.begin({ bucket: "mgrpo", key: "weights", headers: {} }),
    receive: (text: string) => receiveBytes(new TextEncoder().encode(text), objects.temporary, space),
  };
}

test("of two concurrent uploads of one part, the later one replaces the earlier one", async () => {
  const { uploads, released, begin, receive } = await open();
  const id = await begin();
  const [earlier, later] = [await receive("one"), await receive("other")];
  await Promise.all([uploads.putPart(id, 1, earlier), uploads.putPart(id, 1, later)]);
  expect(await uploads.parts(id)).toEqual([{ number: 1, etag: later.etag, size: 5 }]);
  expect(released).toEqual([3]);
});

test("of two concurrent aborts of an upload, one finds no upload, and its bytes are released once", async () => {
  const { uploads, released, begin, receive } = await open();
  const id = await begin();
  await uploads.putPart(id, 1, await receive("one"));
  const [first, second] = await Promise.allSettled([uploads.abort(id), uploads.abort(id)]);
  expect(first.status).toBe("fulfilled");
  expect(second).toMatchObject({ status: "rejected", reason: { code: "NoSuchUpload" } });
  expect(released).toEqual([3]);
});

test("a completion that names a part that is missing, has changed or is out of order is refused, and the upload stays", async () => {
  const { uploads, begin, receive } = await open();
  const id = await begin();
  const put = async (number: number, text: string) => {
    const received = await receive(text);
    await uploads.putPart(id, number, received);
    return { number, etag: received.etag };
  };
  const replaced = await put(1, "none");
  const [one, two] = [await put(1, "one"), await put(2, "two")];
  for (const [parts, code] of [
    [[one, { number: 3, etag: one.etag }], "InvalidPart"],
    [[replaced, two], "InvalidPart"],
    [[two, one], "InvalidPartOrder"],
    [[one, one], "InvalidPartOrder"],
  ] as const)
    await expect(uploads.complete(id, parts, true)).rejects.toMatchObject({ code });
  expect((await uploads.parts(id)).map(({ number }) => number)).toEqual([1, 2]);
});

test("startup removes abandoned uploads, and leaves current ones and foreign files alone", async () => {
  const { folder, start, begin } = await open();
  const [abandoned, current] = [await begin(), await begin()];
  writeFileSync(join(folder, ".DS_Store"), "");
  for (const name of [abandoned, ".DS_Store"]) utimesSync(join(folder, name), 0, 0);
  await start();
  expect(readdirSync(folder).sort()).toEqual([".DS_Store", current]);
});
