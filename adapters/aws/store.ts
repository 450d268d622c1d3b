/** @file The store on AWS, or on any service with its APIs: objects, table, and clock. */
import type { Clock, ObjectStore, Table } from "../../core/ports.ts";
import { openClients, type StoreAccess, type WireObserver } from "./clients.ts";
import { openClock } from "./clock.ts";
import { openObjectStore, type PartSizes } from "./object-store.ts";
import { openTable, sdkApi } from "./table.ts";

export interface StoreNames {
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

/** Endpoints, region and credentials come from the standard AWS variables: those of `access` if it is given, otherwise those of this process. */
export function openAwsStore(names: StoreNames, access?: StoreAccess): AwsStore {
  const endpoints = { dynamo: "DynamoDB", s3: "S3" };
  const observer = (api: keyof typeof endpoints): WireObserver => ({
    sent(endpoint) {
      endpoints[api] = endpoint;
    },
    answered: (date) => clock.sawDate(date),
  });
  const clients = openClients({ dynamo: observer("dynamo"), s3: observer("s3") }, access);
  const table = openTable({ api: sdkApi(clients.dynamo), name: names.table, endpoint: () => endpoints.dynamo });
  const clock = openClock(() => table.get({ pk: "CLOCK", sk: "CLOCK" }));
  return {
    objects: openObjectStore({
      s3: clients.s3,
      bucket: names.bucket,
      endpoint: () => endpoints.s3,
      parts: names.parts,
    }),
    table,
    clock,
    close: () => clients.close(),
  };
}
