/** @file The store that workers use: retries around the S3 adapter, here against the embedded cloud. */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { objectKeys } from "../../core/contracts/keys.ts";
import { openCheckpoints } from "../../gpu-workers/checkpoints.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { retryingStore } from "../../gpu-workers/retrying-store.ts";
import { openLocalStore } from "../fakes/local-store.ts";

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
