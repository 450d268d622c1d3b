/** @file The address under which a worker's server is registered. */
import { expect, test } from "vitest";
import { type InvocationServiceParts, openInvocationService } from "../../gpu-workers/invocation-service.ts";
import { httpNetwork, httpOrigin, type WorkerNetwork } from "../../gpu-workers/invocations/network.ts";
import { memoryStore } from "../fakes/memory-store.ts";
import { relayConfig } from "../fixtures/relay/start.ts";
import { TOKEN } from "../fixtures/relay/world.ts";

test.each([
  ["127.0.0.1", "http://127.0.0.1:7800"],
  ["worker-1.internal", "http://worker-1.internal:7800"],
  ["fd00::11", "http://[fd00::11]:7800"],
])("the origin of %s is %s", (host, origin) => {
  expect(httpOrigin(host, 7800)).toBe(origin);
});

test("callers can parse the URL of a sub-agent's worker that listens on an IPv6 address", async () => {
  const network: WorkerNetwork = { ...httpNetwork, listen: async () => ({ port: 7800, close: async () => {} }) };
  const service = await openInvocationService({
    ...{ network, run: { name: "relay", store: memoryStore(), config: relayConfig({}) }, agent: { name: "searcher" } },
    options: { host: "::1", port: 7800, url: undefined, token: TOKEN },
  } as unknown as InvocationServiceParts);
  expect(new URL(service.url)).toMatchObject({ hostname: "[::1]", port: "7800" });
});
