/** @file `mgrpo ui`: the dashboard, served on this machine until SIGINT or SIGTERM. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import colors from "picocolors";
import { serveInvocations } from "../gpu-workers/invocations/server.ts";
import { watchForStop } from "./local/stop.ts";
import { openSource } from "./show/source.ts";
import { dashboardApp } from "./ui/app.ts";
import { openBrowser } from "./ui/open-browser.ts";
import { openRunWatcher } from "./ui/watch-runs.ts";

export interface UiOptions {
  /** 0: any free port. */
  readonly port: number;
  readonly open?: boolean;
}

const HOST = "127.0.0.1";
const HOSTS = [HOST, "localhost"];

export async function ui(run: string | undefined, { port, open = false }: UiOptions): Promise<void> {
  if (run !== undefined) await openSource(run);
  const stop = watchForStop();
  const key = randomBytes(18).toString("base64url");
  const watcher = openRunWatcher((line) => console.error(line));
  const server = await serveInvocations(dashboardApp({ key, hosts: HOSTS, watcher }), HOST, port);
  try {
    const link = `http://${HOST}:${server.port}/${run === undefined ? "" : `runs/${run}`}?key=${key}`;
    if (process.stdout.isTTY) console.log(`\n  ${colors.bold(link)}\n\n  ${colors.dim("Ctrl-C ends it.")}\n`);
    else console.log(JSON.stringify({ kind: "serving", link }));
    if (open) openBrowser(link);
    if (!stop.signal.aborted) await once(stop.signal, "abort");
  } finally {
    watcher.close();
    await server.close();
    stop.dispose();
  }
}
