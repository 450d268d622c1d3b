/** @file `mgrpo cloud destroy`: deletes the table and the bucket that the environment names, including every run in them. */
import { deleteBucket, deleteTable, refuseForeignBucket, refuseForeignTable } from "../../adapters/aws/setup.ts";
import { MgrpoError } from "../../core/errors.ts";
import { storeNames } from "../store-names.ts";
import { withEndpoints } from "./clients.ts";

export interface DestroyOptions {
  /** The table's name, as a confirmation. */
  readonly yes?: string;
}

export async function destroy({ yes }: DestroyOptions): Promise<void> {
  const { table, bucket } = storeNames("cloud destroy");
  if (yes !== table)
    throw new MgrpoError(
      "config-invalid",
      `this deletes table '${table}' and bucket '${bucket}' with every run in them: confirm by repeating the table's name, --yes ${table}`,
    );
  await withEndpoints(async ({ dynamo, s3, callApi }) => {
    await callApi("dynamo", "destroy", () => refuseForeignTable(dynamo, table));
    await callApi("s3", "destroy", () => refuseForeignBucket(s3, bucket));
    await callApi("s3", `bucket '${bucket}'`, () => deleteBucket(s3, bucket));
    await callApi("dynamo", `table '${table}'`, () => deleteTable(dynamo, table));
  });
  if (!process.stdout.isTTY) console.log(JSON.stringify({ kind: "destroyed", table, bucket }));
  else console.log(`  table '${table}' and bucket '${bucket}' are deleted`);
}
