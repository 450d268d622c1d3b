/** @file A request to a hub that sends nothing for 30 seconds fails, before its response or within it; a hub that is only slow is awaited. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { hubFetch } from "../../../../adapters/checkpoints/hub/fetch.ts";
import { hubSettings } from "../../../../adapters/checkpoints/hub/settings.ts";

/** A request to a hub. The test sends the hub's response, and advances the clock. */
async function request(): Promise<{ readonly answer: Promise<Response>; readonly hub: ServerResponse }> {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const server = createServer();
  onTestFinished(() => {
    vi.useRealTimers();
    server.closeAllConnections();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const arrived = new Promise<ServerResponse>((resolve) => server.once("request", (_, response) => resolve(response)));
  const settings = hubSettings({ HF_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  const answer = hubFetch(settings, "owner/tiny")(settings.url);
  answer.catch(() => {});
  return { answer, hub: await arrived };
}

test("a hub that never responds is unavailable", async () => {
  const { answer } = await request();
  vi.advanceTimersByTime(30_000);
  await expect(answer).rejects.toMatchObject({
    code: "hub-unavailable",
    message: expect.stringMatching(/does not answer \(nothing arrived for 30 s\): check the network/),
  });
});

test("a body fails once it stops, however long it took before", async () => {
  const { answer, hub } = await request();
  hub.writeHead(200).flushHeaders();
  const reader = (await answer).body?.getReader();
  for (const letter of "abc") {
    hub.write(letter);
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe(letter);
    vi.advanceTimersByTime(29_000);
  }
  const next = reader?.read();
  vi.advanceTimersByTime(1000);
  await expect(next).rejects.toThrow("nothing arrived for 30 s");
});
