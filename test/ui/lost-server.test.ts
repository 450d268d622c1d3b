/** @file A page that loses its server says so, and updates again once the server is back. A server that refuses or fails is not reported as lost. */
import { afterAll, expect, test, vi } from "vitest";
import type { StreamState } from "../../ui/app/live.ts";
import { server } from "../../ui/app/source.ts";

const opened: FakeEventSource[] = [];
class FakeEventSource extends EventTarget {
  static readonly CLOSED = 2;
  readyState = 0;

  constructor() {
    super();
    opened.push(this);
  }
}
vi.stubGlobal("EventSource", FakeEventSource);
vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
afterAll(() => {
  vi.unstubAllGlobals();
});
const { Stream } = await import("../../ui/app/live.ts");

test("a lost connection is reported with the newest view, until the server sends a view again", () => {
  const received: StreamState<unknown>[] = [];
  new Stream("/api/runs/tiny/events", "pulse").add((state) => received.push(state));
  const [events = expect.fail()] = opened;
  const send = (step: number) => events.dispatchEvent(new MessageEvent("pulse", { data: JSON.stringify({ step }) }));
  send(1);
  events.dispatchEvent(new Event("error"));
  send(2);
  const failure = { code: "no-server", message: expect.stringMatching(/does not answer/) };
  expect(received).toEqual([{}, { view: { step: 1 } }, { view: { step: 1 }, failure }, { view: { step: 2 } }]);
});

test("a server that refuses the page is not reported as down", () => {
  const received: StreamState<unknown>[] = [];
  new Stream("/api/events", "runs").add((state) => received.push(state));
  const events = opened.at(-1) ?? expect.fail();
  events.readyState = FakeEventSource.CLOSED;
  events.dispatchEvent(new Event("error"));
  expect(received.at(-1)?.failure).toEqual({ code: "refused", message: expect.stringMatching(/reload the page/) });
});

test("a server that fails is not reported as down", async () => {
  vi.stubGlobal("fetch", async () => new Response(null, { status: 500 }));
  const { failure } = await server.load("/api/runs");
  expect(failure).toEqual({ code: "no-view", message: expect.stringContaining("HTTP 500") });
});
