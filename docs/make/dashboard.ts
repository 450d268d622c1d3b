/** @file Starts `mgrpo ui` on the runs of a folder, as a user does, for the pictures in docs/ and for `npm run test:ui`. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const COMMAND = resolve(import.meta.dirname, "../../dist/cli/mgrpo.js");

export interface DashboardProcess {
  /** The address that `mgrpo ui` prints, with the access key. */
  readonly link: string;
  readonly origin: string;
  close(): Promise<void>;
}

/**
 * Starts the dashboard on a free port.
 * @param folder the folder whose `runs` it shows.
 */
export async function spawnDashboard(folder: string): Promise<DashboardProcess> {
  const child = spawn(process.execPath, [COMMAND, "ui", "--port", "0"], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  for await (const line of createInterface(child.stdout)) {
    const { link } = JSON.parse(line) as { readonly link: string };
    const close = async () => {
      child.kill();
      await ended;
    };
    return { link, origin: new URL(link).origin, close };
  }
  throw new Error(`\`mgrpo ui\` in ${folder} ended before it printed an address`);
}
