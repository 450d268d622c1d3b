/**
 * @file `mgrpo cloud serve`: the embedded cloud kept alive in a directory of its own, with the functions running in it, for runs whose
 * workers are on several machines. It prints one line, the environment that those machines need, and ends on SIGINT or SIGTERM;
 * started again on the same directory it goes on, with the same keys. Signatures of requests are verified; nothing is encrypted.
 */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { MgrpoError } from "../../core/errors.ts";
import { openEmbeddedCloud } from "../local/embedded-cloud.ts";
import { watchForStop } from "../local/stop.ts";

export interface ServeOptions {
  readonly host: string;
  /** Of the DynamoDB API. */
  readonly port: number;
  /** Default: the one after `port`, any free one if that is 0. */
  readonly s3Port?: number;
  readonly dir: string;
}

const EVERY_ADDRESS = ["0.0.0.0", "::"];

export async function serve({ host, port, s3Port, dir }: ServeOptions): Promise<void> {
  if (EVERY_ADDRESS.includes(host))
    throw new MgrpoError(
      "config-invalid",
      `--host ${host} is every address of this machine: name the one that the workers reach it by`,
    );
  const stop = watchForStop();
  const ports = { dynamo: port, s3: s3Port ?? (port === 0 ? 0 : port + 1) };
  try {
    const session = await openEmbeddedCloud(dir, join(dir, "functions.log"), { host, ports });
    try {
      console.log(JSON.stringify({ ...session.environment, MGRPO_WORKER_TOKEN: workerToken(session.environment) }));
      if (!stop.signal.aborted) await once(stop.signal, "abort");
    } finally {
      await session.close();
    }
  } finally {
    stop.dispose();
  }
}

/** Workers need a secret between them: one that lasts as long as the cloud's own. */
function workerToken({ AWS_SECRET_ACCESS_KEY: secret = "" }: Readonly<Record<string, string>>): string {
  return createHmac("sha256", secret).update("calls between workers").digest("base64url");
}
