/** @file Proxies in front of a store that verifies signatures. The time that they show jumps an hour ahead of the store's. */
import { afterAll, expect, test } from "vitest";
import { type AwsStore, openAwsStore } from "../../adapters/aws/store.ts";
import { openLocalStore } from "../fakes/local-store.ts";
import { type FaultProxy, openProxy } from "./proxy.ts";
import { openTurnBack } from "./store-clock.ts";
import { endpointsOf } from "./stores.ts";

const HOUR = 3_600_000;
const local = await openLocalStore();
const { environment } = local.cloud;
const portOf = (variable: string) => Number(new URL(environment[variable] ?? "").port);

/** The statuses that the store answered with. */
const statuses: number[] = [];
let aheadMs = 0;
const proxies: FaultProxy[] = [];

async function openStoreBehindProxies(): Promise<AwsStore> {
  const open = async (channel: "dynamo" | "s3", variable: string) => {
    const proxy = await openProxy({
      process: "functions",
      channel,
      target: () => portOf(variable),
      faults: new Map(),
      now: () => 0,
      aheadMs: () => aheadMs,
      turnBack: openTurnBack(environment),
      record: ({ status }) => statuses.push(status),
      onRequest: () => () => {},
    });
    proxies.push(proxy);
    return proxy.port;
  };
  const ports = {
    dynamo: await open("dynamo", "AWS_ENDPOINT_URL_DYNAMODB"),
    s3: await open("s3", "AWS_ENDPOINT_URL_S3"),
  };
  return openAwsStore({ table: "mgrpo", bucket: "mgrpo" }, { ...environment, ...endpointsOf(ports) });
}

const store = await openStoreBehindProxies();
afterAll(async () => {
  store.close();
  await Promise.all(proxies.map((proxy) => proxy.close()));
  await local.close();
});

test("after the clock jumps, each API refuses the first request and no later one; what is written is what was sent", async () => {
  const key = { pk: "RUN#a", sk: "RUN" };
  await store.objects.commit("before", Buffer.from("1"));
  expect(statuses.splice(0)).toEqual([200]);

  aheadMs = HOUR;
  await store.objects.commit("runs/a b/+.json", Buffer.from("2"));
  expect(statuses.splice(0)).toEqual([403, 200]);
  await store.table.insert(key, { name: "a" });
  expect(statuses.splice(0)).toEqual([400, 200]);

  expect(Buffer.from((await store.objects.get("runs/a b/+.json")) ?? "").toString()).toBe("2");
  expect(await store.table.get(key)).toMatchObject({ name: "a" });
  await store.objects.delete(["runs/a b/+.json"]);
  expect(statuses).toEqual([200, 200, 200]);
});
