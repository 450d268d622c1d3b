/** @file What pages receive while they watch: every change, once; a failure that lasts; and a run that is damaged. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Listener, Watch } from "../../cli/ui/watch.ts";
import { openRunWatcher } from "../../cli/ui/watch-runs.ts";
import { MgrpoError } from "../../core/errors.ts";
import { chdirToProject } from "./command-line.ts";
import { recordRun } from "./recorded-run.ts";
import { RUN } from "./records.ts";

const folder = chdirToProject();

/** What a listener receives, in order. `at(n)` waits until it has more than n. */
function listening<View>() {
  const received: unknown[] = [];
  const listener: Listener<View> = {
    show: (view) => received.push(view),
    fail: ({ message }) => received.push(message),
  };
  const at = (n: number) => expect.poll(() => received.length).toBeGreaterThan(n);
  return { received, listener, at };
}

const unreachable = new MgrpoError("store-unreachable", "the store does not answer", { retryable: true });

/** A watch that finds these one after another, then the last one repeatedly. */
function watchOf(found: (number | Error)[]) {
  const lines: string[] = [];
  let polls = 0;
  const poll = async (emit: (view: number) => void) => {
    const next = found[Math.min(polls++, found.length - 1)];
    if (typeof next !== "number") throw next;
    emit(next);
  };
  return { watch: new Watch<number>({ poll, seconds: 0.005, report: (line) => lines.push(line) }), lines };
}

test("a change is sent once, and a listener that comes later receives the newest view", async () => {
  const { watch } = watchOf([1, 1, 2, 2]);
  const [first, late] = [listening<number>(), listening<number>()];
  watch.add(first.listener);
  await first.at(1);
  await sleep(50);
  watch.add(late.listener);
  expect([first.received, late.received]).toEqual([[1, 2], [2]]);
  expect([watch.remove(first.listener), watch.remove(late.listener)]).toEqual([1, 0]);
});

test("a failure that passes is not sent; one that lasts is sent once, and so is the view after it", async () => {
  const { watch, lines } = watchOf([1, unreachable, 1, unreachable, unreachable, unreachable, 1, 2]);
  const { received, listener, at } = listening<number>();
  watch.add(listener);
  await at(3);
  watch.stop();
  expect(received).toEqual([1, unreachable.message, 1, 2]);
  expect(lines).toEqual([]);
});

test.each([
  ["", []],
  [", even if the store was unreachable just before", [unreachable]],
])("a fault of the dashboard itself is sent to the page and reported once%s", async (_when, before) => {
  const { watch, lines } = watchOf([...before, new TypeError("no such field")]);
  const { received, listener, at } = listening<number>();
  watch.add(listener);
  await at(0);
  await sleep(50);
  watch.stop();
  expect(received).toEqual(["the dashboard failed: TypeError: no such field"]);
  expect(lines).toEqual(["TypeError: no such field"]);
});

test("a run that becomes unreadable is reported on its page and marked as damaged in the list", async () => {
  await recordRun(folder, {});
  const lines: string[] = [];
  const watcher = openRunWatcher((line) => lines.push(line));
  const [run, list] = [listening<unknown>(), listening<unknown>()];
  watcher.subscribe(RUN, run.listener);
  watcher.subscribeList(list.listener);
  await run.at(0);
  await list.at(0);
  expect(run.received[0]).toMatchObject({ closed: 1 });
  expect(list.received[0]).toMatchObject({ runs: [{ run: RUN, step: 1 }] });
  writeFileSync(join(folder, "runs", RUN, "status.json"), "{}");
  await run.at(1);
  await list.at(1);
  watcher.close();
  expect(run.received[1]).toContain("status.json");
  expect(list.received[1]).toMatchObject({ runs: [{ run: RUN, state: "damaged" }] });
  expect(lines).toEqual([]);
});
