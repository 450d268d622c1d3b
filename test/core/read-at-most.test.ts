/** @file A body is read up to a number of bytes, and no further. */
import { expect, test } from "vitest";
import { readAtMost } from "../../core/read-at-most.ts";

/** An endless body of chunks of 3 bytes, or one of `chunks` of them. */
function bodyOf(chunks = Number.POSITIVE_INFINITY) {
  const state = { sent: 0, isCanceled: false };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (state.sent === chunks) return controller.close();
        state.sent += 1;
        controller.enqueue(Uint8Array.of(state.sent, state.sent, state.sent));
      },
      cancel: () => {
        state.isCanceled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { body, state };
}

test("a body of as many bytes as are allowed is read whole, in order", async () => {
  expect(await readAtMost(bodyOf(2).body, 6)).toEqual(Uint8Array.of(1, 1, 1, 2, 2, 2));
  expect(await readAtMost(null, 0)).toEqual(new Uint8Array());
});

test("a longer body is canceled at the chunk that exceeds the limit", async () => {
  const { body, state } = bodyOf();
  expect(await readAtMost(body, 5)).toBeUndefined();
  expect(state).toEqual({ sent: 2, isCanceled: true });
});
