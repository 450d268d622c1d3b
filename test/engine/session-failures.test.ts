/** @file After an upload whose graph session could not be opened, the next upload tries to open it again: the failure is not cached. */
import { expect, test } from "vitest";
import type { ExecutionProvider } from "../../core/contracts/engine.ts";
import { tensor } from "../../engine/compiled/graph-session.ts";
import type { LaneOptions } from "../../engine/compiled/lanes.ts";
import { uploadToDevice } from "../../engine/compiled/upload.ts";
import { OPTIONS } from "./tiny.ts";

const UNAVAILABLE: LaneOptions = { ...OPTIONS, provider: "unavailable" as string as ExecutionProvider };

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => expect.fail("no failure"),
    (error: unknown) => error,
  );

test("an upload after a failed one tries again", async () => {
  const upload = () => failureOf(uploadToDevice({ x: tensor(new Float32Array(1), [1]) }, UNAVAILABLE));
  const first = await upload();
  expect(first).toBeInstanceOf(Error);
  expect(await upload()).not.toBe(first);
});
