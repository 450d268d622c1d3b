/**
 * @file A cloud in one directory, by default on 127.0.0.1: DynamoDB (dynalite), S3 (our own, on files), and events and scheduled ticks that
 * call the functions in this process. Every acknowledged write survives kill -9, and the next start delivers unhandled events again.
 *
 *     <directory>/table/              LevelDB
 *     <directory>/buckets/            objects
 *     <directory>/uploads/            multipart uploads in progress
 *     <directory>/temporary/          bodies being received, uploads being joined or removed
 *     <directory>/events              journal
 *     <directory>/lock/               one process at a time
 *     <directory>/owner               the owner's pid
 *     <directory>/credentials.json    the keys
 *
 * The directory contains secret keys: only the user who created it can access it, except on Windows, where file modes have no effect.
 */
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import type { StoreWrites } from "../../core/contracts/store-writes.ts";
import { MgrpoError } from "../../core/errors.ts";
import type { CloudHandlers, Store } from "../../core/ports.ts";
import { silenceNodeVersionWarning } from "../aws/clients.ts";
import { translated } from "../aws/errors.ts";
import { createTable } from "../aws/setup.ts";
import { openKeyVerifier, type VerifyRequest } from "./authentication.ts";
import { type Credentials, openCredentials } from "./credentials.ts";
import { openDirectStore } from "./direct-store.ts";
import { openDiskSpace } from "./disk-space.ts";
import { type DeliverySchedule, type Dispatcher, openDispatcher } from "./dispatcher.ts";
import { type Journal, openJournal, type PendingEvent } from "./journal.ts";
import { listen, stop } from "./listen.ts";
import { type InUse, lockDirectory } from "./lock.ts";
import { openMultipartUploads } from "./s3/multipart.ts";
import { openObjectFiles } from "./s3/object-files.ts";
import type { S3Services } from "./s3/routes.ts";
import { createS3Server } from "./s3/server.ts";
import { openSignatureVerifier, type Service } from "./signature.ts";
import { storageFault } from "./storage-faults.ts";
import { openTableServer, type TableServer } from "./table-server.ts";
import { startTicks } from "./ticks.ts";

const NAMES = { table: "mgrpo", bucket: "mgrpo" };
const REGION = "us-east-1";
const LOOPBACK = "127.0.0.1";
const OWNER_ONLY = 0o700;

export interface LocalCloudOptions {
  readonly directory: string;
  /** The error if another process uses the directory; by default that of a run. */
  readonly inUse?: InUse;
  /** Absent: nothing is called, and events wait for a later start. For a process that only reads. */
  readonly handlers?: CloudHandlers;
  /** Seconds between scheduled ticks; 0: none. Default 2. */
  readonly tickSeconds?: number;
  /** The address to listen on, which is also the one callers use; default 127.0.0.1. */
  readonly host?: string;
  /** Fixed ports; default 0, any free one. */
  readonly ports?: { readonly dynamo: number; readonly s3: number };
  /** Default true. False, on 127.0.0.1 only: the access key ID is enough. */
  readonly verifySignatures?: boolean;
  /** A quota for the bytes of the directory's files, besides the disk's free space; default: none. */
  readonly maxBytes?: number;
  /** For tests: delays, drops and duplicates of events. */
  readonly deliveries?: DeliverySchedule;
  /** Receives one line per failed tick, and per event that stays unhandled or cannot be recorded as handled. Default: stderr. */
  readonly report?: (line: string) => void;
}

export interface LocalCloud {
  /** What a process needs to reach it: the standard AWS variables, MGRPO_TABLE and MGRPO_BUCKET. */
  readonly environment: Readonly<Record<string, string>>;
  /** The same store, for this process. */
  readonly direct: Store;
  /** DynamoDB writes of all callers since the start. */
  writes(): StoreWrites;
  close(): Promise<void>;
}

/**
 * Rejects with `inUse` (by default `store-unreachable`) if the directory is in use, with `config-invalid` or `cannot-listen` if the host or
 * ports cannot be used, or with a storage fault.
 */
export async function startLocalCloud(options: LocalCloudOptions): Promise<LocalCloud> {
  const { directory, handlers, tickSeconds = 2, report = writeToStderr } = options;
  requireSignatures(options);
  const closers = new Closers();
  try {
    await openPrivateFolder(directory);
    closers.add(await lockDirectory(directory, options.inUse));
    const credentials = await openCredentials(directory);
    const storage = await openStorage(options, report, closers);
    const unhandled = handlers ? await unhandledEvents(storage) : [];
    const servers = await startServers(options, credentials, storage, closers);
    await ensureTable(servers.dynamoEndpoint, credentials);
    closers.add(() => storage.dispatcher.close());
    for (const event of unhandled) storage.dispatcher.enqueue(event);
    if (handlers) closers.add(startTicks(tickSeconds, () => handlers.tick(), report));
    const { objects, space } = storage;
    return {
      environment: environmentOf(servers, credentials),
      direct: openDirectStore({ server: servers.table, files: objects, space, names: NAMES }),
      writes: () => servers.table.writes(),
      close: () => closers.closeAll(),
    };
  } catch (error) {
    // If closing fails too, that error is dropped: the one that stopped the start says more.
    await closers.closeAll().catch(() => {});
    throw storageFault(directory, error);
  }
}

/** Closes resources in reverse order of opening. */
class Closers {
  readonly #closers: (() => Promise<void>)[] = [];

  add(close: () => Promise<void>): void {
    this.#closers.push(close);
  }

  /** Closes all of them, then rejects with the first failure. */
  async closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (const close of this.#closers.splice(0).reverse()) {
      await close().catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }
}

const writeToStderr = (line: string) => void process.stderr.write(`${line}\n`);

function requireSignatures({ host = LOOPBACK, verifySignatures = true }: LocalCloudOptions): void {
  if (verifySignatures || host === LOOPBACK) return;
  throw new MgrpoError(
    "config-invalid",
    `a cloud on ${host} must verify signatures: only one on ${LOOPBACK} may skip them`,
  );
}

async function openPrivateFolder(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: OWNER_ONLY });
  await chmod(directory, OWNER_ONLY);
}

interface StorageServices extends S3Services {
  readonly journal: Journal;
  readonly dispatcher: Dispatcher;
}

async function openStorage(
  { directory, handlers, maxBytes, deliveries = () => [0] }: LocalCloudOptions,
  report: (line: string) => void,
  closers: Closers,
): Promise<StorageServices> {
  const space = await openDiskSpace(directory, maxBytes);
  const journal = await openJournal(join(directory, "events"), (event) => handlers && dispatcher.enqueue(event));
  closers.add(async () => journal.close());
  // The dispatcher must be ready before anyone can put an object.
  const dispatcher = openDispatcher({
    handle: async (event) => handlers?.objectCreated(event),
    handled: (id) => journal.handled(id),
    deliveries,
    report,
  });
  const objects = await openObjectFiles({ directory, space, journal });
  const uploads = await openMultipartUploads(directory, objects, space);
  if (!(await objects.buckets()).includes(NAMES.bucket)) await objects.createBucket(NAMES.bucket);
  return { space, journal, dispatcher, objects, uploads };
}

interface Servers {
  readonly table: TableServer;
  readonly dynamoEndpoint: string;
  readonly s3Endpoint: string;
}

async function startServers(
  options: LocalCloudOptions,
  credentials: Credentials,
  storage: StorageServices,
  closers: Closers,
): Promise<Servers> {
  const { directory, host = LOOPBACK, ports = { dynamo: 0, s3: 0 }, verifySignatures = true } = options;
  const verifier = (service: Service): VerifyRequest =>
    verifySignatures ? openSignatureVerifier({ credentials, region: REGION, service }) : openKeyVerifier(credentials);

  const s3 = createS3Server(storage, verifier("s3"));
  const s3Endpoint = await listen(s3, { host, port: ports.s3 }, "S3 of the local cloud");
  closers.add(() => stop(s3));
  const table = await openTableServer(join(directory, "table"), verifier("dynamodb"), storage.space);
  closers.add(() => table.close());
  const dynamoEndpoint = await listen(table.server, { host, port: ports.dynamo }, "DynamoDB of the local cloud");
  closers.add(() => stop(table.server));
  return { table, dynamoEndpoint, s3Endpoint };
}

/**
 * The unhandled events of earlier processes whose objects exist; the others are marked as handled. All objects are looked up before the first
 * event is delivered. Otherwise a start that fails could hang: it waits for running handlers, and a handler may itself wait for the start.
 */
async function unhandledEvents({ objects, journal }: StorageServices): Promise<PendingEvent[]> {
  const events: PendingEvent[] = [];
  for (const event of journal.unhandled) {
    const object = await objects.open(event.bucket, event.key);
    await object?.file.close();
    if (object) events.push(event);
    else journal.handled(event.id);
  }
  return events;
}

function environmentOf({ dynamoEndpoint, s3Endpoint }: Servers, credentials: Credentials): Record<string, string> {
  return {
    AWS_ENDPOINT_URL_DYNAMODB: dynamoEndpoint,
    AWS_ENDPOINT_URL_S3: s3Endpoint,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    AWS_REGION: REGION,
    MGRPO_TABLE: NAMES.table,
    MGRPO_BUCKET: NAMES.bucket,
  };
}

async function ensureTable(endpoint: string, credentials: Credentials): Promise<void> {
  silenceNodeVersionWarning();
  const dynamo = new DynamoDBClient({ endpoint, credentials, region: REGION });
  try {
    await translated(
      "open the table",
      () => endpoint,
      () => createTable(dynamo, NAMES.table),
    );
  } finally {
    dynamo.destroy();
  }
}
