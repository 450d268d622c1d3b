/** @file The dashboard beside a training, in a process of its own: reading never holds up the trainer. It ends with the training. */
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
  const args = [builtModule("cli/mgrpo").pathname, "ui", run, ...(open ? ["--open"] : [])];
  const env = { ...process.env, MGRPO_PARENT: "1" };
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  const lines = createInterface({ input: child.stdout });
  const link = await new Promise<string | undefined>((resolve) => {
    lines.once("line", (line) => resolve(Serving.safeParse(JSON.parse(line)).data?.link));
    child.once("exit", () => resolve(undefined));
    child.once("error", () => resolve(undefined));
  });
  child.unref();
  return link === undefined ? undefined : { link, close: () => child.kill() };
}
