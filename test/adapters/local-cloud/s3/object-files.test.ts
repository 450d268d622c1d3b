/** @file Concurrent deletions of an object. */
import { expect, test } from "vitest";
import { openLocalStore } from "../../../fakes/local-store.ts";

test("an object that two calls delete at once gives its bytes back to the quota once", async () => {
  const store = await openLocalStore({ maxBytes: 300_000 });
  const { objects } = store.cloud.direct;
  expect(await objects.commit("deleted twice", new Uint8Array(200_000))).toBe(true);
  await Promise.all([objects.delete(["deleted twice"]), objects.delete(["deleted twice"])]);
  expect(await objects.head("deleted twice")).toBeUndefined();
  const tooMuch = store.objects.commit("too much", new Uint8Array(400_000));
  await expect(tooMuch).rejects.toMatchObject({ code: "disk-full" });
  await store.close();
});
