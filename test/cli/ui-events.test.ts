/**
 * @file The dashboard's event streams: a heartbeat keeps them open through proxies, for as long as the page listens; of the views that a page has
 * not read, only the newest is kept.
 */
import { expect, onTestFinished, test, vi } from "vitest";
import { dashboardApp } from "../../cli/ui/app.ts";
import type { Listener } from "../../cli/ui/watch.ts";
import type { RunPulse } from "../../ui/views.ts";

const headers = { cookie: "mgrpo-ui-4711=a-key-for-tests-only" };

const paths = ["/api/events", "/api/runs/quiet/events"];

test.each(paths)("%s sends a comment after 25 s, and no timer is left once the page disconnects", async (path) => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const end = vi.fn();
  const watcher = { subscribe: () => end, subscribeList: () => end, close: () => {} };
  const app = dashboardApp({ key: "a-key-for-tests-only", hosts: ["127.0.0.1"], watcher });
  const { body } = await app.request(`http://127.0.0.1:4711${path}`, { headers });
  const reader = body?.getReader() ?? expect.fail();
  await expect.poll(() => vi.getTimerCount()).toBe(1);
  vi.advanceTimersByTime(25_000);
  const { value } = await reader.read();
  expect(new TextDecoder().decode(value)).toMatch(/^:.*\n\n$/);
  expect(end).not.toHaveBeenCalled();
  await reader.cancel();
  await expect.poll(() => end.mock.calls.length).toBe(1);
  expect(vi.getTimerCount()).toBe(0);
});

test("a page that stops reading gets only the newest of the views that it missed", async () => {
  const listeners: Listener<RunPulse>[] = [];
  const subscribe = (_run: string, own: Listener<RunPulse>) => {
    listeners.push(own);
    return () => {};
  };
  const watcher = { subscribe, subscribeList: () => () => {}, close: () => {} };
  const app = dashboardApp({ key: "a-key-for-tests-only", hosts: ["127.0.0.1"], watcher });
  const { body } = await app.request("http://127.0.0.1:4711/api/runs/quiet/events", { headers });
  const show = (closed: number) => listeners[0]?.show({ closed } as RunPulse);
  for (let closed = 1; closed <= 1000; closed++) {
    show(closed);
    await Promise.resolve();
  }
  const reader = body?.getReader() ?? expect.fail();
  const read: number[] = [];
  while (read.at(-1) !== 1000) {
    const { value } = await reader.read();
    read.push(Number(/"closed":(\d+)/.exec(new TextDecoder().decode(value))?.[1]));
  }
  expect(read.length).toBeLessThan(10);
  await reader.cancel();
});

test("a failure follows the view before it, and the view after it follows the failure", async () => {
  const listeners: Listener<RunPulse>[] = [];
  const subscribe = (_run: string, own: Listener<RunPulse>) => {
    listeners.push(own);
    own.show({ closed: 1 } as RunPulse);
    own.fail({ code: "store-unreachable", message: "away" });
    return () => {};
  };
  const watcher = { subscribe, subscribeList: () => () => {}, close: () => {} };
  const app = dashboardApp({ key: "a-key-for-tests-only", hosts: ["127.0.0.1"], watcher });
  const { body } = await app.request("http://127.0.0.1:4711/api/runs/quiet/events", { headers });
  const reader = body?.getReader() ?? expect.fail();
  const next = async () => /^event: (\w+)/.exec(new TextDecoder().decode((await reader.read()).value))?.[1];
  expect([await next(), await next()]).toEqual(["pulse", "failure"]);
  listeners[0]?.show({ closed: 1 } as RunPulse);
  expect(await next()).toBe("pulse");
  await reader.cancel();
});

test.each(paths)("HEAD %s is answered without a stream, which nobody would read or end", async (path) => {
  const subscribe = vi.fn(() => () => {});
  const watcher = { subscribe, subscribeList: subscribe, close: () => {} };
  const app = dashboardApp({ key: "a-key-for-tests-only", hosts: ["127.0.0.1"], watcher });
  const { status } = await app.request(`http://127.0.0.1:4711${path}`, { method: "HEAD", headers });
  expect(status).toBe(200);
  expect(subscribe).not.toHaveBeenCalled();
});
