/** @file `mgrpo ui`: serves the dashboard of the runs in this folder, and in a stage or the store that the environment names, until a stop signal. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import colors from "picocolors";
import * as z from "zod";
import { parse } from "../core/contracts/parse.ts";
import { httpOrigin } from "../gpu-workers/invocations/network.ts";
import { serveApp } from "../gpu-workers/invocations/server.ts";
import { refuseWildcardAddress } from "./cloud/address.ts";
import { namesOfStage } from "./deployment.ts";
import { watchForStop } from "./local/stop.ts";
import { openSource } from "./show/source.ts";
import { dashboardApp } from "./ui/app.ts";
import { openBrowser } from "./ui/open-browser.ts";
import { openRunWatcher } from "./ui/watch-runs.ts";

export interface UiOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly open?: boolean;
  /** The stage of `sst deploy` whose runs it shows too. */
  readonly stage?: string;
}

/** A key that the user sets, so that links stay valid when the dashboard restarts. Absent: a random key for this process. */
const Key = z.string("must have at least 24 characters").min(24).optional();

const randomKey = (): string => randomBytes(18).toString("base64url");

export async function ui(run: string | undefined, options: UiOptions): Promise<void> {
  const { host, port, open = false, stage } = options;
  refuseWildcardAddress(host);
  if (stage !== undefined) {
    const { table, bucket } = await namesOfStage(stage);
    Object.assign(process.env, { MGRPO_TABLE: table, MGRPO_BUCKET: bucket });
  }
  if (run !== undefined) await openSource(run);
  const key = parse(Key, process.env["MGRPO_UI_KEY"], "MGRPO_UI_KEY", "config-invalid") ?? randomKey();
  const ticket = open ? randomKey() : undefined;
  const stop = watchForStop();
  const watcher = openRunWatcher((line) => console.error(line));
  let server: Awaited<ReturnType<typeof serveApp>> | undefined;
  try {
    server = await serveApp(dashboardApp({ key, ticket, hosts: [host, "localhost"], watcher }), host, port);
    const address = `${httpOrigin(host, server.port)}/${run === undefined ? "" : `runs/${run}`}`;
    const link = `${address}?key=${encodeURIComponent(key)}`;
    if (process.stdout.isTTY) console.log(`\n  ${colors.bold(link)}\n\n  ${colors.dim("Press Ctrl-C to stop")}\n`);
    else console.log(JSON.stringify({ kind: "serving", link }));
    if (ticket !== undefined) openBrowser(`${address}?key=${ticket}`);
    if (!stop.signal.aborted) await once(stop.signal, "abort");
  } finally {
    watcher.close();
    await server?.close();
    stop.dispose();
  }
}
