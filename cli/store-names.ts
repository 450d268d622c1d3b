/** @file The table and bucket that the environment names. Endpoints, region and keys are the standard AWS variables. */
import * as z from "zod";
import { parse } from "../core/contracts/parse.ts";

const Environment = z.object({
  MGRPO_TABLE: z.string("set it to the name of the table").min(1),
  MGRPO_BUCKET: z.string("set it to the name of the bucket").min(1),
});

/** Throws if a name is missing; the message names `command`. */
export function storeNames(command: string): { readonly table: string; readonly bucket: string } {
  const found = parse(Environment, process.env, `environment of mgrpo ${command}`, "config-invalid");
  return { table: found.MGRPO_TABLE, bucket: found.MGRPO_BUCKET };
}

/** Whether the environment names a store. Throws if it names half of one. */
export function namesStore(): boolean {
  const { MGRPO_TABLE, MGRPO_BUCKET } = process.env;
  if (!MGRPO_TABLE && !MGRPO_BUCKET) return false;
  parse(Environment, process.env, "environment", "config-invalid");
  return true;
}
