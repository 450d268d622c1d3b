/** @file Servers that cannot listen: one clear line, whatever the operating system's reason. */
import { createServer } from "node:http";
import { expect, test, vi } from "vitest";
import { listen, stop } from "../../../adapters/local-cloud/listen.ts";

test.each<[string, string, string, RegExp]>([
  ["EACCES", "permission denied", "cannot-listen", /^S3: cannot listen on port 80 of localhost \(permission denied\)/],
  ["EADDRINUSE", "address in use", "cannot-listen", /^S3: port 80 of localhost is in use: stop what listens there/],
  ["ENOTFOUND", "not found", "config-invalid", /^S3: localhost is not an address of this machine/],
])("%s is one line with what to do", async (errno, reason, code, message) => {
  const server = createServer();
  vi.spyOn(server, "listen").mockImplementation(() => {
    queueMicrotask(() => server.emit("error", Object.assign(new Error(reason), { code: errno })));
    return server;
  });
  const listening = listen(server, { host: "localhost", port: 80 }, "S3");
  await expect(listening).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});

test("the URL has the port that the system chose", async () => {
  const server = createServer((_, response) => response.end("here"));
  const url = await listen(server, { host: "127.0.0.1", port: 0 }, "S3");
  expect(await (await fetch(url)).text()).toBe("here");
  await stop(server);
});
