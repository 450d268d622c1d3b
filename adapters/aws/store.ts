/** @file The store on AWS, or on any service with its APIs: objects, table, and clock. */
import type { Clock, ObjectStore, Table } from "../../core/ports.ts";
import { openClients, type StoreAccess, type WireObserver } from "./clients.ts";
import { openClock } from "./clock.ts";
import { openObjectStore, type PartSizes } from "./object-store.ts";
import { openTable, sdkApi } from "./table.ts";

export interface AwsStoreOptions {
  readonly table: string;
  readonly bucket: string;
  /** For objects that are uploaded in parts. */
  readonly parts?: PartSizes;
}

export interface AwsStore {
  readonly objects: ObjectStore;
  readonly table: Table;
  readonly clock: Clock;
  close(): void;
}

/**
 * Endpoints, region and keys are those of `access`. Without it, they come from this process: its environment, a profile, or the role
 * of its machine or function. For a custom endpoint, keys in the environment take precedence over a profile (clients.ts).
 */
export function openAwsStore({ table: name, bucket, parts }: AwsStoreOptions, access?: StoreAccess): AwsStore {
  /** For messages: the endpoint of each service, or the service's name until a request has been sent. */
  const endpoints = { dynamo: "DynamoDB", s3: "S3" };
  const observer = (api: keyof typeof endpoints): WireObserver => ({
    sent(endpoint) {
      endpoints[api] = endpoint;
    },
    answered: (date) => clock.sawDate(date),
  });
  const clients = openClients({ dynamo: observer("dynamo"), s3: observer("s3") }, access);
  const table = openTable({ api: sdkApi(clients.dynamo), name, endpoint: () => endpoints.dynamo });
  // There is no such item: any response has the Date header that the clock needs.
  const clock = openClock(() => table.get({ pk: "CLOCK", sk: "CLOCK" }));
  return {
    objects: openObjectStore({
      s3: clients.s3,
      bucket,
      endpoint: () => endpoints.s3,
      parts,
    }),
    table,
    clock,
    close: () => clients.close(),
  };
}
