/** @file A worker's server that cannot listen: one line that says what to pass instead. */
import { Hono } from "hono";
import { expect, test } from "vitest";
import { serveApp } from "../../gpu-workers/invocations/server.ts";

test("an address of another machine is refused", async () => {
  // Reserved for documentation (RFC 5737).
  await expect(serveApp(new Hono(), "192.0.2.9", 0)).rejects.toMatchObject({
    code: "cannot-listen",
    message: "192.0.2.9 is not an address of this machine: pass a --host that is one",
  });
});

test("a port in use is refused", async () => {
  const { port, close } = await serveApp(new Hono(), "127.0.0.1", 0);
  await expect(serveApp(new Hono(), "127.0.0.1", port)).rejects.toMatchObject({
    message: `port ${port} on 127.0.0.1 is in use: pass another --port, or 0 for any free one`,
  });
  await close();
});
