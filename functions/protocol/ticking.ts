/**
 * @file tick: look, decide in core, write, look again until there is nothing to do. One tick of a run at a time in this process:
 *
 *     idle ──call──> running ──call──> running, one more wanted ──> running …     Calls that come while one runs share the next one.
 */
import { MgrpoError } from "../../core/errors.ts";
import { advance } from "../../core/training/step.ts";
import type { Context } from "../context.ts";
import { execute } from "./executing.ts";
import { repair } from "./repair.ts";
import { readSnapshot } from "./snapshot.ts";

/** Moves the run on as far as it goes. `thorough` (the clock's): repairs first. */
export type Tick = (run: string, thorough: boolean) => Promise<void>;

export function openTick(context: Context): Tick {
  const running = new Map<string, { current: Promise<void>; next?: { thorough: boolean; done: Promise<void> } }>();
  const start = (run: string, thorough: boolean): Promise<void> => {
    const current = tickOnce(context, run, thorough).finally(() => {
      if (!running.get(run)?.next) running.delete(run);
    });
    running.set(run, { current });
    return current;
  };
  return (run, thorough) => {
    const now = running.get(run);
    if (!now) return start(run, thorough);
    if (now.next) {
      now.next.thorough ||= thorough;
      return now.next.done;
    }
    const next = { thorough, done: Promise.resolve() };
    next.done = now.current.then(
      () => start(run, next.thorough),
      () => start(run, next.thorough),
    );
    now.next = next;
    return next.done;
  };
}

async function tickOnce(context: Context, run: string, thorough: boolean): Promise<void> {
  let record = await context.records.run(run);
  if (!record && thorough) throw new MgrpoError("not-found", `no run '${run}' in this store`);
  // Without RUN, an event is of a start that is under way and will tick itself.
  if (record && thorough) {
    await repair(context, record);
    record = await context.records.run(run);
  }
  while (record?.status === "running") {
    const snapshot = await readSnapshot(context, record);
    const commands = snapshot ? advance(snapshot) : [];
    if (commands.length === 0) return;
    await execute(context, commands);
    record = await context.records.run(run);
  }
}
