/** @file The URL of a server that listens; for one that cannot, one line with the reason and what to do. */
import { createServer } from "node:http";
import { expect, test, vi } from "vitest";
import { listen, stop } from "../../../adapters/local-cloud/listen.ts";

const ELSEWHERE = "S3: localhost is not an address of this machine: name one that is";
test.each<[string, string, string, string]>([
  [
    "EACCES",
    "permission denied",
    "cannot-listen",
    "S3: cannot listen on port 80 of localhost (permission denied): choose another port (0: any free one)",
  ],
  [
    "EADDRINUSE",
    "address in use",
    "cannot-listen",
    "S3: port 80 of localhost is in use: stop what listens there, or choose another port (0: any free one)",
  ],
  ["EADDRNOTAVAIL", "address not available", "config-invalid", ELSEWHERE],
  ["ENOTFOUND", "not found", "config-invalid", ELSEWHERE],
])("%s gives one line that says what to do", async (errno, reason, code, message) => {
  const server = createServer();
  vi.spyOn(server, "listen").mockImplementation(() => {
    queueMicrotask(() => server.emit("error", Object.assign(new Error(reason), { code: errno })));
    return server;
  });
  const listening = listen(server, { host: "localhost", port: 80 }, "S3");
  await expect(listening).rejects.toMatchObject({ code, message });
});

test("a port above 65,535 gives one line that says what to do", async () => {
  const listening = listen(createServer(), { host: "localhost", port: 70_000 }, "S3");
  const message = expect.stringMatching(/^S3: cannot listen on port 70000 of localhost .*: choose another port/);
  await expect(listening).rejects.toMatchObject({ code: "cannot-listen", message });
});

test("the URL has the port that the system chose", async () => {
  const server = createServer((_, response) => response.end("here"));
  const url = await listen(server, { host: "127.0.0.1", port: 0 }, "S3");
  expect(await (await fetch(url)).text()).toBe("here");
  await stop(server);
});
