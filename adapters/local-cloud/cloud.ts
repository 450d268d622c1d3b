/**
 * @file A cloud of one directory, by default on 127.0.0.1: DynamoDB (dynalite), S3 (our own, of files), events and a clock that call the
 * functions in this process. Everything that was answered is there after kill -9, and events not handled by then come again.
 *
 *     <directory>/table/    LevelDB        <directory>/buckets/     objects
 *     <directory>/events    journal        <directory>/uploads/     multipart uploads in progress
 *     <directory>/lock/     one process at a time                   credentials.json
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { MgrpoError } from "../../core/errors.ts";
import type { CloudHandlers, Store } from "../../core/ports.ts";
import { silenceNodeVersionWarning } from "../aws/clients.ts";
import { createTable } from "../aws/setup.ts";
import { type Credentials, openCredentials, openKeyVerifier } from "./credentials.ts";
import { openDirectStore } from "./direct-store.ts";
import { type DeliverySchedule, openDispatcher } from "./dispatcher.ts";
import { openJournal, type PendingEvent } from "./journal.ts";
import { listen, stop } from "./listen.ts";
import { lockDirectory } from "./lock.ts";
import { openMultipartUploads } from "./s3/multipart.ts";
import { openObjectFiles } from "./s3/object-files.ts";
import { createS3Server } from "./s3/server.ts";
import { openSignatureVerifier, type Service } from "./signature.ts";
import { openDiskSpace } from "./disk-space.ts";
import { createTableServer, type TableWrites } from "./table-server.ts";
import { startTicks } from "./ticks.ts";

const NAMES = { table: "mgrpo", bucket: "mgrpo" };
const REGION = "us-east-1";
const LOOPBACK = "127.0.0.1";

export interface LocalCloudOptions {
  readonly directory: string;
  readonly handlers: CloudHandlers;
  /** Seconds between ticks of the clock; 0: off. Default 2. */
  readonly clockSeconds?: number;
  /** The address to listen on, which callers reach it by; default 127.0.0.1. */
  readonly host?: string;
  /** Fixed ports; default 0, any free one. */
  readonly ports?: { readonly dynamo: number; readonly s3: number };
  /** False, on 127.0.0.1 only: the access key id is enough. */
  readonly verifySignatures?: boolean;
  /** A quota for the directory; default: what the disk has. */
  readonly maxBytes?: number;
  /** For tests: faults of event delivery. */
  readonly events?: DeliverySchedule;
  /** Takes one line per failure of a handler. Default: stderr. */
  readonly report?: (line: string) => void;
}

export interface LocalCloud {
  /** What a process needs to reach it: the standard AWS variables, MGRPO_TABLE and MGRPO_BUCKET. */
  readonly environment: Readonly<Record<string, string>>;
  /** The same store, for this process. */
  readonly direct: Store;
  /** DynamoDB writes of all callers since the start. */
  writes(): TableWrites;
  close(): Promise<void>;
}

export async function startLocalCloud(options: LocalCloudOptions): Promise<LocalCloud> {
  const { directory, handlers, clockSeconds = 2, ports = { dynamo: 0, s3: 0 }, maxBytes } = options;
  const { host = LOOPBACK, verifySignatures = true } = options;
  if (!verifySignatures && host !== LOOPBACK)
    throw new MgrpoError(
      "config-invalid",
      `a cloud on ${host} verifies signatures: only on ${LOOPBACK} may they be taken on trust`,
    );
  const { events = () => [0], report = (line) => void process.stderr.write(`${line}\n`) } = options;
  const opened: (() => Promise<void>)[] = [];
  const closeAll = async () => {
    for (const close of opened.splice(0).reverse()) await close();
  };
  try {
    await mkdir(directory, { recursive: true });
    opened.push(await lockDirectory(directory));
    const credentials = await openCredentials(directory);
    const verifier = (service: Service) =>
      verifySignatures ? openSignatureVerifier({ credentials, region: REGION, service }) : openKeyVerifier(credentials);
    const space = await openDiskSpace(directory, maxBytes);

    const journal = await openJournal(join(directory, "events"), (pending) => dispatcher.enqueue(pending));
    opened.push(async () => journal.close());
    // There before anybody can put an object.
    const dispatcher = openDispatcher({
      handle: (event) => handlers.objectCreated(event),
      handled: (id) => journal.handled(id),
      deliveries: events,
      report,
    });
    const objects = await openObjectFiles({ directory, space, journal });
    const uploads = await openMultipartUploads(directory, objects, space);
    if (!(await objects.buckets()).includes(NAMES.bucket)) await objects.createBucket(NAMES.bucket);

    const s3 = createS3Server({ objects, uploads, space }, verifier("s3"));
    const s3Endpoint = await listen(s3, { host, port: ports.s3 }, "S3 of the local cloud");
    opened.push(() => stop(s3));
    const table = createTableServer(join(directory, "table"), verifier("dynamodb"), space);
    const dynamoEndpoint = await listen(table.server, { host, port: ports.dynamo }, "DynamoDB of the local cloud");
    opened.push(() => stop(table.server));
    await ensureTable(dynamoEndpoint, credentials);

    opened.push(() => dispatcher.close());
    for (const pending of journal.unhandled) await redeliver(pending);
    opened.push(startTicks(clockSeconds, () => handlers.clock(), report));

    async function redeliver(pending: PendingEvent): Promise<void> {
      const found = await objects.open(pending.bucket, pending.key);
      await found?.file.close();
      if (found) dispatcher.enqueue(pending);
      else journal.handled(pending.id);
    }

    return {
      environment: {
        AWS_ENDPOINT_URL_DYNAMODB: dynamoEndpoint,
        AWS_ENDPOINT_URL_S3: s3Endpoint,
        AWS_ACCESS_KEY_ID: credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
        AWS_REGION: REGION,
        MGRPO_TABLE: NAMES.table,
        MGRPO_BUCKET: NAMES.bucket,
      },
      direct: openDirectStore({ server: table, files: objects, space, names: NAMES }),
      writes: table.writes,
      close: closeAll,
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function ensureTable(endpoint: string, credentials: Credentials): Promise<void> {
  silenceNodeVersionWarning();
  const dynamo = new DynamoDBClient({ endpoint, credentials, region: REGION });
  await createTable(dynamo, NAMES.table).finally(() => dynamo.destroy());
}
