/**
 * @file The dashboard beside a training run or a served cloud, in a process of its own, so its reads never delay either. It ends with the process
 * that started it.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { builtModule } from "../../built-module.ts";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";
import { MGRPO } from "../terminal/name.ts";

export interface Dashboard {
  readonly link: string;
  close(): void;
}

const START_SECONDS = 30;

const Serving = z.object({ kind: z.literal("serving"), link: z.url() });

/**
 * Starts only if stdout is a terminal, where the link is printed, or `open` is set: the link carries a key, which must not get into a log.
 * Undefined also if it cannot start, with a warning: a training run does not depend on it.
 */
export async function openDashboard(run: string, open = false): Promise<Dashboard | undefined> {
  if (!process.stdout.isTTY && !open) return undefined;
  const dashboard = await startDashboard([run, ...(open ? ["--open"] : [])], {});
  if (!dashboard) console.error(`warning: the dashboard did not start; this shows why: ${MGRPO} ui ${run}`);
  return dashboard;
}

/**
 * @param args of `mgrpo ui`.
 * @param environment its variables besides those of this process.
 */
export async function startDashboard(
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<Dashboard | undefined> {
  const env = { ...process.env, ...environment, MGRPO_PARENT: "1" };
  const command = [fileURLToPath(builtModule("cli/mgrpo")), "ui", ...args];
  const child = spawn(process.execPath, command, { env, stdio: ["ignore", "pipe", "ignore"] });
  const link = await linkOf(child);
  child.unref();
  if (link !== undefined) return { link, close: () => child.kill() };
  child.kill();
  return undefined;
}

/** The link that the dashboard prints. Undefined: it ends, prints something else, or takes longer than `seconds`. */
export function linkOf(
  child: ChildProcessByStdio<null, Readable, null>,
  seconds = START_SECONDS,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => settle(), seconds * 1000);
    const settle = (link?: string) => {
      clearTimeout(timer);
      resolve(link);
    };
    createInterface({ input: child.stdout }).once("line", (line) =>
      settle(Serving.safeParse(jsonOrUndefined(line)).data?.link),
    );
    child.once("exit", () => settle());
    child.once("error", () => settle());
  });
}
