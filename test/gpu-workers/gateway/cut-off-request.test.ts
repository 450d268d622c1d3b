/** @file Clients that disconnect while they send a request. */
import { connect } from "node:net";
import { expect, test } from "vitest";
import { openHarness, settled } from "./harness.ts";

test.each([
  ["chat/completions", "content-length: 1000"],
  ["chat/completions", "transfer-encoding: chunked"],
  ["rewards", "content-length: 1000"],
])(
  "a client that disconnects while it sends a request to %s (%s) is not a failure of the server: nothing is logged",
  async (path, length) => {
    const harness = await openHarness();
    const { main } = harness.open();
    const head = `POST /gate/v1/${path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${main.apiKey}\r\n${length}`;
    const socket = connect(harness.port, "127.0.0.1");
    socket.write(`${head}\r\n\r\n8\r\n{"model"`);
    await settled();
    socket.destroy();
    await settled();
    expect(harness.lines).toEqual([]);
  },
);
