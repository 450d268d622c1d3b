/** @file The table and bucket that the environment names. The AWS SDK itself finds the endpoints, the region and the keys. */
import * as z from "zod";
import { parse } from "../core/contracts/parse.ts";

const nameSchema = (what: string) => {
  const remedy = `set it to the name of the ${what}`;
  return z.string(remedy).min(1, remedy);
};

const StoreVariables = z.object({ MGRPO_TABLE: nameSchema("table"), MGRPO_BUCKET: nameSchema("bucket") });

/** Throws if a name is missing; the message names `command`. */
export function storeNames(command: string): { readonly table: string; readonly bucket: string } {
  const found = parse(StoreVariables, process.env, `environment of mgrpo ${command}`, "config-invalid");
  return { table: found.MGRPO_TABLE, bucket: found.MGRPO_BUCKET };
}

/** Whether the environment names a store. Throws if it names only a table or only a bucket. */
export function namesStore(): boolean {
  const { MGRPO_TABLE, MGRPO_BUCKET } = process.env;
  if (!MGRPO_TABLE && !MGRPO_BUCKET) return false;
  parse(StoreVariables, process.env, "environment", "config-invalid");
  return true;
}
