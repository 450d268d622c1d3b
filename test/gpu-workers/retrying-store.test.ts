/** @file The store that workers use: which errors it retries, and, on the embedded cloud, the hashes that it passes on. */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { MgrpoError } from "../../core/errors.ts";
import { openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { retryingStore } from "../../gpu-workers/retrying-store.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { memoryStore } from "../fakes/memory-store.ts";

let local: Awaited<ReturnType<typeof openLocalStore>>;
beforeAll(async () => {
  local = await openLocalStore();
});
afterAll(() => local.close());

test("a part's known SHA-256 reaches the signature of its upload: S3 rejects a wrong one", async () => {
  const log = createLog(() => {});
  const checkpoints = openCheckpoints("test", retryingStore(local, 1, log));
  const bytes = new TextEncoder().encode("weights");
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  await checkpoints.store({ sha256, bytes: bytes.length }, bytes);
  expect(await local.objects.get(objectKeys.part("test", sha256))).toEqual(bytes);
  // If the adapter hashed the body itself, this upload would pass.
  const wrong = "0".repeat(64);
  await expect(checkpoints.store({ sha256: wrong, bytes: bytes.length }, bytes)).rejects.toThrow(
    /XAmzContentSHA256Mismatch/,
  );
  expect(await local.objects.get(objectKeys.part("test", wrong))).toBeUndefined();
});

const outage = new MgrpoError("store-unreachable", "no answer", { retryable: true });

/** Reads through a store whose first reads fail with these errors. Returns the result, the number of reads, and the warnings. */
async function readAfter(failures: readonly Error[], retrySeconds: number) {
  const memory = memoryStore();
  await memory.objects.commit("key", Uint8Array.of(7));
  const pending = [...failures];
  const warnings: string[] = [];
  let reads = 0;
  const get: typeof memory.objects.get = (key) => {
    reads += 1;
    const failure = pending.shift();
    return failure ? Promise.reject(failure) : memory.objects.get(key);
  };
  const log = createLog((line) => warnings.push(line));
  const store = retryingStore({ ...memory, objects: { ...memory.objects, get } }, retrySeconds, log);
  const [result] = await Promise.allSettled([store.objects.get("key")]);
  return { result, reads, warnings };
}

test("a call is retried until an outage ends, and one line warns of the outage", async () => {
  const { result, reads, warnings } = await readAfter([outage, outage, outage], 60);
  expect(result).toEqual({ status: "fulfilled", value: Uint8Array.of(7) });
  expect(reads).toBe(4);
  expect(warnings).toEqual([expect.stringMatching(/"level":"warn".*waiting for the store.*get key.*no answer/)]);
});

test("an outage that outlasts the limit is thrown", async () => {
  const { result, reads } = await readAfter(Array(1000).fill(outage), 0.3);
  expect(result).toEqual({ status: "rejected", reason: outage });
  expect(reads).toBeGreaterThan(1);
});

test.each([
  ["another error", new MgrpoError("disk-full", "no space", { retryable: true })],
  ["an outage that no retry ends", new MgrpoError("store-unreachable", "no such table")],
  ["a bug", new TypeError("a bug")],
])("%s is thrown at once", async (_what, error) => {
  const { result, reads, warnings } = await readAfter([error], 60);
  expect([result, reads, warnings]).toEqual([{ status: "rejected", reason: error }, 1, []]);
});
