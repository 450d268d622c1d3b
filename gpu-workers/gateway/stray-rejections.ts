/**
 * @file Promises of an app that reject while nothing waits for them, such as the second of two concurrent requests after the first has failed.
 * Node.js ends the process for one, and with it every rollout there. Those of an app are reported instead. All others still end the process.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { AppRunner } from "./app-rollout.ts";

const reports = new AsyncLocalStorage<(error: unknown) => void>();

/** @param report called with each stray rejection of the app, even after its call has ended. */
export function reportingStrays(app: AppRunner, report: (error: unknown, question: string) => void): AppRunner {
  if (!process.listeners("unhandledRejection").includes(onUnhandled)) process.on("unhandledRejection", onUnhandled);
  return {
    run(call, signal) {
      const outer = reports.getStore();
      const both = (error: unknown) => {
        report(error, call.question.id);
        outer?.(error);
      };
      return reports.run(both, () => app.run(call, signal));
    },
  };
}

function onUnhandled(error: unknown): void {
  const report = reports.getStore();
  if (!report) throw error;
  report(error);
}
