/** @file The dashboard's event streams: a heartbeat keeps them open through proxies, for as long as the page listens. */
import { expect, onTestFinished, test, vi } from "vitest";
import { dashboardApp } from "../../cli/ui/app.ts";

const headers = { cookie: "mgrpo-ui-4711=a-key-for-tests-only" };

const paths = ["/api/events", "/api/runs/quiet/events"];

test.each(paths)("%s sends a comment every 25 s until the page leaves", async (path) => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const end = vi.fn();
  const watcher = { subscribe: () => end, subscribeList: () => end, close: () => {} };
  const app = dashboardApp({ key: "a-key-for-tests-only", hosts: ["127.0.0.1"], watcher });
  const { body } = await app.request(`http://127.0.0.1:4711${path}`, { headers });
  const reader = body?.getReader() ?? expect.fail();
  await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1));
  vi.advanceTimersByTime(25_000);
  const { value } = await reader.read();
  expect(new TextDecoder().decode(value)).toMatch(/^:.*\n\n$/);
  expect(end).not.toHaveBeenCalled();
  await reader.cancel();
  await vi.waitFor(() => expect(end).toHaveBeenCalledOnce());
  expect(vi.getTimerCount()).toBe(0);
});
