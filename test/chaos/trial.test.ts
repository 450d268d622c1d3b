/** @file A trial does not wait forever for a process that never answers. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { Supervisor } from "./supervisor.ts";
import { untilReachable } from "./trial.ts";

test("the wait for a process that accepts connections but never answers fails at the deadline, with the log", async () => {
  const server = createServer(() => {}).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const supervisor = new Supervisor({ deaths: [], sleeps: [], onSleep() {}, now: () => 0, log() {} });
  await expect(untilReachable({ supervisor, log: ["functions: stuck"] }, port, 0.1)).rejects.toThrow(
    `port ${port} does not answer after 0.1 s:\nfunctions: stuck`,
  );
});
