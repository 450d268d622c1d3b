/**
 * @file `mgrpo cloud setup`: creates the table and the bucket that the environment names, unless they exist, and a rule that deletes the
 * parts of abandoned uploads, where the store supports one and the bucket has no other lifecycle rules.
 */
import {
  createBucket,
  createTable,
  expireUploads,
  type LifecycleOutcome,
  type SetupOutcome,
} from "../../adapters/aws/setup.ts";
import { storeNames } from "../store-names.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { withEndpoints } from "./clients.ts";

export async function setup(): Promise<void> {
  const { table, bucket } = storeNames("cloud setup");
  await withEndpoints(async (endpoints) => {
    const { dynamo, s3, callApi } = endpoints;
    const tableOutcome = await callApi("dynamo", `table '${table}'`, () => createTable(dynamo, table));
    const region = await dynamo.config.region();
    report("table", table, tableOutcome, endpoints.dynamoUrl, region);
    const bucketOutcome = await callApi("s3", `bucket '${bucket}'`, () => createBucket(s3, bucket));
    report("bucket", bucket, bucketOutcome, endpoints.s3Url, region);
    reportRule(await callApi("s3", `lifecycle of bucket '${bucket}'`, () => expireUploads(s3, bucket)));
  });
}

function report(kind: string, name: string, outcome: SetupOutcome, endpoint: string, region: string): void {
  if (!process.stdout.isTTY) console.log(JSON.stringify({ kind, name, outcome, endpoint, region }));
  else console.log(`  ${kind} '${name}' ${outcome} (${endpoint}, ${region})`);
}

function reportRule(rule: LifecycleOutcome): void {
  if (!process.stdout.isTTY) console.log(JSON.stringify({ kind: "lifecycle", ...rule }));
  else if (rule.outcome === "created") console.log("  parts of abandoned uploads are deleted after two days");
  else if (rule.outcome === "exists") console.log("  a rule of the bucket deletes the parts of abandoned uploads");
  else console.log(`  no rule deletes the parts of abandoned uploads: ${stripControlCharacters(rule.why)}`);
}
