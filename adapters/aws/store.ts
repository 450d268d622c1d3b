/** @file The store on AWS, or on any service with its APIs: objects, table, clock, and a meter of writes. */
import type { Clock, ObjectStore, Table } from "../../core/ports.ts";
import { openClients, type StoreAccess, type WireObserver } from "./clients.ts";
import { openClock } from "./clock.ts";
import { openMeter, type WriteMeter } from "./meter.ts";
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
  readonly meter: WriteMeter;
  close(): void;
}

/** Endpoints, region and credentials come from the standard AWS variables: of this process, unless `access` has others. */
export function openAwsStore(names: StoreNames, access?: StoreAccess): AwsStore {
  const meter = openMeter();
  const endpoints = { dynamo: "DynamoDB", s3: "S3" };
  const observer = (api: keyof typeof endpoints): WireObserver => ({
    sent(command, endpoint, bodyBytes) {
      endpoints[api] = endpoint;
      meter.request(command, bodyBytes);
    },
    answered: (date) => clock.sawDate(date),
  });
  const clients = openClients({ dynamo: observer("dynamo"), s3: observer("s3") }, access);
  const table = openTable({ api: sdkApi(clients.dynamo), name: names.table, meter, endpoint: () => endpoints.dynamo });
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
    meter,
    close: () => clients.close(),
  };
}
