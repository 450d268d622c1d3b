/** @file Downloads from the hub: resumed where they stopped, by one process or several, and verified; an error of the disk is reported in one line. */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { fetchModel, type HubReporter } from "../../../../adapters/checkpoints/hub/model.ts";
import { sha256 } from "../../../../engine/hash.ts";
import { COMMIT } from "../../../fakes/hub-server.ts";
import { FILES, MODEL, useTinyHub, weights } from "./tiny-hub.ts";

const { hub, home, settings, report, root, blobOfWeights, serve } = useTinyHub();

test("an interrupted download resumes where it stopped", async () => {
  hub().faults.breakAfter = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 30_000];
  await fetchModel(MODEL, settings(), report);
  expect(hub().requests.at(-1)).toMatch(/model.safetensors bytes=\d+-99999$/);
  expect(sha256(readFileSync(blobOfWeights()))).toBe(sha256(weights));
});

test("a download that the hub rate-limits on every attempt fails with the hub's reason", async () => {
  hub().faults.limitsFiles = true;
  await expect(fetchModel(MODEL, settings(), report)).rejects.toMatchObject({
    code: "hub-unavailable",
    message: expect.stringMatching(
      /^the download of config\.json from \S+ was interrupted after 0 of 23 bytes \(\S+ is rate-limiting requests \(429\)/,
    ),
  });
});

test("a download that a killed process left behind is resumed", async () => {
  mkdirSync(join(root(), "blobs"), { recursive: true });
  writeFileSync(`${blobOfWeights()}.incomplete`, weights.slice(0, 70_000));
  utimesSync(`${blobOfWeights()}.incomplete`, 0, 0);
  await fetchModel(MODEL, settings(), report);
  expect(hub().requests.at(-1)).toMatch(/model.safetensors bytes=70000-99999$/);
  expect(existsSync(`${blobOfWeights()}.incomplete`)).toBe(false);
});

test("a partial download whose modification time is in the future, as another clock set it, is resumed long before that time", async () => {
  mkdirSync(join(root(), "blobs"), { recursive: true });
  writeFileSync(`${blobOfWeights()}.incomplete`, weights.slice(0, 70_000));
  const inAnHour = Date.now() / 1000 + 3600;
  utimesSync(`${blobOfWeights()}.incomplete`, inAnHour, inAnHour);
  await fetchModel(MODEL, settings(), report);
  expect(hub().requests.at(-1)).toMatch(/model.safetensors bytes=70000-99999$/);
  expect(sha256(readFileSync(blobOfWeights()))).toBe(sha256(weights));
}, 20_000);

test.each([
  ["no bytes", 0],
  ["a part", 70_000],
])("two concurrent downloads of one file end with the right bytes, starting from %s", async (_, size) => {
  mkdirSync(join(root(), "blobs"), { recursive: true });
  writeFileSync(`${blobOfWeights()}.incomplete`, weights.slice(0, size));
  utimesSync(`${blobOfWeights()}.incomplete`, 0, 0);
  await Promise.all([fetchModel(MODEL, settings(), report), fetchModel(MODEL, settings(), report)]);
  expect(sha256(readFileSync(blobOfWeights()))).toBe(sha256(weights));
  expect(existsSync(`${blobOfWeights()}.incomplete`)).toBe(false);
});

test("a download that another process deletes as damaged starts again, or fails if that happens at its end", async () => {
  const incomplete = `${blobOfWeights()}.incomplete`;
  mkdirSync(join(root(), "blobs"), { recursive: true });
  writeFileSync(incomplete, weights.slice(0, 70_000));
  // The clock stands still, so the file counts as growing until it is deleted.
  vi.useFakeTimers({ toFake: ["Date"], now: statSync(incomplete).mtimeMs });
  onTestFinished(() => void vi.useRealTimers());
  const waiting = fetchModel(MODEL, settings(), report);
  // The last file that is fetched before the weights: the download now waits for `incomplete`.
  const last = join(root(), "snapshots", COMMIT, "tokenizer_config.json");
  await expect.poll(() => existsSync(last)).toBe(true);
  rmSync(incomplete);
  expect(sha256(readFileSync(join(await waiting, "model.safetensors")))).toBe(sha256(weights));
  rmSync(blobOfWeights());
  const deletes: HubReporter["progress"] = ({ file }) => {
    if (file === "model.safetensors") rmSync(incomplete, { force: true });
  };
  await expect(fetchModel(MODEL, settings(), { ...report, progress: deletes })).rejects.toMatchObject({
    code: "checkpoint-damaged",
    message:
      "hf:owner/tiny: the download of model.safetensors was damaged, so another process deleted it: run the command again",
  });
});

// Every write to /dev/full fails for lack of space.
test.skipIf(!existsSync("/dev/full"))("a download to a full disk is not retried", async () => {
  mkdirSync(join(root(), "blobs"), { recursive: true });
  const incomplete = `${blobOfWeights()}.incomplete`;
  symlinkSync("/dev/full", incomplete);
  await expect(fetchModel(MODEL, settings(), report)).rejects.toMatchObject({
    code: "disk-full",
    message: `${incomplete}: the disk, or your quota on it, is full (ENOSPC): free some space, or set HF_HUB_CACHE to a folder on another disk`,
  });
  // A probe and one download.
  expect(hub().requests.filter((request) => request.endsWith("model.safetensors"))).toHaveLength(2);
});

test("a download into a folder that cannot be written is refused with its path", async () => {
  mkdirSync(join(home(), "hub"), { recursive: true });
  writeFileSync(root(), "a file");
  const message = expect.stringMatching(
    /models--owner--tiny.* cannot be read or written \(.*\): set HF_HUB_CACHE to another folder$/,
  );
  for (const revision of ["main", COMMIT])
    await expect(fetchModel({ ...MODEL, revision }, settings(), report)).rejects.toMatchObject({
      code: "storage-unwritable",
      message,
    });
});

test("a download whose hash is not the one that the hub lists is deleted and refused", async () => {
  hub().faults.corrupts = true;
  await expect(fetchModel(MODEL, settings(), report)).rejects.toThrow(
    /^hf:owner\/tiny: the download of config.json has the hash [0-9a-f]{12}…, but the hub lists [0-9a-f]{12}…, so it was deleted: run the command again$/,
  );
  hub().faults.corrupts = false;
  await fetchModel(MODEL, settings(), report);
});

test("the reported progress of a download never decreases and ends at the total", async () => {
  const seen: number[] = [];
  let total = 0;
  const progress: HubReporter["progress"] = ({ bytes, totalBytes }) => {
    seen.push(bytes);
    total = totalBytes;
  };
  await fetchModel(MODEL, settings(), { ...report, progress });
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  expect([seen.at(-1), total]).toEqual([total, 23 + 2 + 3 + 100_000]);
});

test("a download that never ends is aborted once it is longer than the file that the hub lists", async () => {
  const large = new Uint8Array(2_000_000).fill(7);
  await serve(new Map([...FILES, ["model.safetensors", large]]));
  hub().faults.appends = true;
  let most = 0;
  const progress: HubReporter["progress"] = ({ bytes }) => {
    most = Math.max(most, bytes);
  };
  await expect(fetchModel(MODEL, settings(), { ...report, progress })).rejects.toThrow(/, so it was deleted/);
  expect(most).toBeLessThan(2_000_000 + (1 << 20));
});
