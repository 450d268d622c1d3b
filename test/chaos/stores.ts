/**
 * @file The store of a trial, behind DynamoDB's and S3's APIs.
 *
 *     the embedded cloud    a process of the trial: it dies as the schedule says, keeps its files, and sends events and ticks
 *     any other store       is already running: each trial has its own table and bucket there, and only ticks reach the functions, as
 *                           with `mgrpo dispatch`
 */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { openClients } from "../../adapters/aws/clients.ts";
import { createBucket, createTable, deleteBucket, deleteTable } from "../../adapters/aws/setup.ts";
import { openCredentials } from "../../adapters/local-cloud/credentials.ts";
import { freePort } from "../fakes/proxies.ts";
import type { Built } from "../kill/build.ts";
import { LIMITS } from "./limits.ts";
import type { CloudArguments } from "./processes/cloud.ts";
import { openTurnBack, type TurnBack } from "./store-clock.ts";
import type { Supervisor } from "./supervisor.ts";

/** Where a store's two APIs listen, on 127.0.0.1. */
export interface StorePorts {
  readonly dynamo: number;
  readonly s3: number;
}

export interface TrialStore {
  readonly ports: StorePorts;
  /** The names of the table and the bucket, the region and the keys, as environment variables. */
  readonly environment: Readonly<Record<string, string>>;
  /** Absent: the store does not verify the dates of requests. */
  readonly turnBack?: TurnBack;
  /** @param functions the port that events and ticks are sent to. */
  start(functions: number): Promise<void>;
  close(): Promise<void>;
}

const REGION = { AWS_REGION: "us-east-1" };

/** @param directory has the cloud's files; the caller deletes it. */
export async function openEmbeddedCloud(built: Built, supervisor: Supervisor, directory: string): Promise<TrialStore> {
  const ports = { dynamo: await freePort(), s3: await freePort() };
  const { accessKeyId, secretAccessKey } = await openCredentials(directory);
  return {
    ports,
    environment: {
      ...REGION,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      MGRPO_TABLE: "mgrpo",
      MGRPO_BUCKET: "mgrpo",
    },
    async start(functions) {
      const cloud: CloudArguments = { directory, ports, functions, tickSeconds: LIMITS.tick };
      const command = [built.path("chaos/cloud"), JSON.stringify(cloud)];
      supervisor.start({ name: "cloud", command, environment: {} });
    },
    async close() {},
  };
}

/** The keys are those of this process's environment, if it has any. */
export async function openOtherStore(ports: StorePorts): Promise<TrialStore> {
  const { AWS_ACCESS_KEY_ID = "chaos", AWS_SECRET_ACCESS_KEY = "chaos" } = process.env;
  const name = `chaos-${randomUUID()}`;
  const keys = { ...REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY };
  const ignored = { sent() {}, answered() {} };
  const clients = openClients({ dynamo: ignored, s3: ignored }, { ...keys, ...endpointsOf(ports) });
  const stop = new AbortController();
  return {
    ports,
    environment: { ...keys, MGRPO_TABLE: name, MGRPO_BUCKET: name },
    turnBack: openTurnBack(keys),
    async start(functions) {
      await Promise.all([createTable(clients.dynamo, name), createBucket(clients.s3, name)]);
      void tickUntil(stop.signal, functions);
    },
    async close() {
      stop.abort();
      await Promise.all([deleteTable(clients.dynamo, name), deleteBucket(clients.s3, name)]);
      clients.close();
    },
  };
}

export const endpointsOf = ({ dynamo, s3 }: StorePorts) => ({
  AWS_ENDPOINT_URL_DYNAMODB: `http://127.0.0.1:${dynamo}`,
  AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${s3}`,
});

/** A tick that fails is not repeated: the next one does its work. */
async function tickUntil(signal: AbortSignal, functions: number): Promise<void> {
  while (!signal.aborted) {
    await fetch(`http://127.0.0.1:${functions}/tick`, { method: "POST", signal }).catch(() => {});
    await pause(LIMITS.tick * 1000, undefined, { signal }).catch(() => {});
  }
}
