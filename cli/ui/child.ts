/**
 * @file The dashboard beside a training or a served cloud, in a process of its own: reading never holds them up. It ends with the process
 * that started it.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import * as z from "zod";
import { builtModule } from "../../built-module.ts";

export interface Dashboard {
  readonly link: string;
  close(): void;
}

const Serving = z.object({ kind: z.literal("serving"), link: z.url() });

/**
 * Opened for a reader at a terminal, or who asked for the browser; elsewhere its link, which carries a key, would end up in a log.
 * Undefined also if it cannot start: a training does not depend on it.
 */
export async function openDashboard(run: string, open = false): Promise<Dashboard | undefined> {
  if (!process.stdout.isTTY && !open) return undefined;
  return startDashboard([run, ...(open ? ["--open"] : [])], {});
}

/**
 * @param args of `mgrpo ui`.
 * @param environment in which it runs, besides that of this process.
 */
export async function startDashboard(
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Promise<Dashboard | undefined> {
  const env = { ...process.env, ...environment, MGRPO_PARENT: "1" };
  const command = [builtModule("cli/mgrpo").pathname, "ui", ...args];
  const child = spawn(process.execPath, command, { env, stdio: ["ignore", "pipe", "ignore"] });
  const lines = createInterface({ input: child.stdout });
  const link = await new Promise<string | undefined>((resolve) => {
    lines.once("line", (line) => resolve(Serving.safeParse(JSON.parse(line)).data?.link));
    child.once("exit", () => resolve(undefined));
    child.once("error", () => resolve(undefined));
  });
  child.unref();
  return link === undefined ? undefined : { link, close: () => child.kill() };
}
