/**
 * @file Promises of an app or a tool that reject while nothing waits for them. For example, an app starts two requests and awaits one after the
 * other: when the first fails, nothing waits for the second. By default, such a rejection ends the Node.js process, and with it every rollout
 * there; here it is reported instead. Any other unhandled rejection still ends the process.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Tool } from "../core/ports.ts";
import { toolsWithin } from "../core/tools-within.ts";
import type { AppRunner } from "./gateway/app-rollout.ts";

const reports = new AsyncLocalStorage<(error: unknown) => void>();

/** @param report called with each unhandled rejection of the app and the id of the call's question, even after the call has ended. */
export function reportingUnhandledRejections(
  app: AppRunner,
  report: (error: unknown, question: string) => void,
): AppRunner {
  listen();
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

/** The message about an unhandled rejection of a tool. */
export const unhandledToolRejection = (tool: string): string =>
  `a promise of tool '${tool}' was rejected, and nothing handles it`;

/** The same agents, with tools whose unhandled rejections are reported. */
export const agentsReportingUnhandledRejections = <Agent extends { readonly tools: ReadonlyMap<string, Tool> }>(
  agents: ReadonlyMap<string, Agent>,
  report: (error: unknown, tool: string) => void,
): ReadonlyMap<string, Agent> =>
  new Map(
    [...agents].map(([name, agent]) => [
      name,
      { ...agent, tools: toolsReportingUnhandledRejections(agent.tools, report) },
    ]),
  );

/** @param report called with each unhandled rejection of a tool and the tool's name, even after its call has ended. */
export function toolsReportingUnhandledRejections(
  tools: ReadonlyMap<string, Tool>,
  report: (error: unknown, tool: string) => void,
): ReadonlyMap<string, Tool> {
  listen();
  return toolsWithin(tools, (name, call) => reports.run((error) => report(error, name), call));
}

function listen(): void {
  if (!process.listeners("unhandledRejection").includes(onUnhandled)) process.on("unhandledRejection", onUnhandled);
}

function onUnhandled(error: unknown): void {
  const report = reports.getStore();
  if (!report) throw error;
  report(error);
}
