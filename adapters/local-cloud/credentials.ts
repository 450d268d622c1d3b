/**
 * @file The keys of one cloud, made at random when its directory is made. Requests with another access key id are refused: a worker
 * of another run never writes here by mistake. Whether signatures are verified too, the one who starts the cloud decides.
 */
import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { type ReceivedRequest, AuthenticationError } from "./signature.ts";

const Credentials = z.strictObject({ accessKeyId: z.string().min(1), secretAccessKey: z.string().min(1) });
export type Credentials = z.infer<typeof Credentials>;

export async function openCredentials(directory: string): Promise<Credentials> {
  const path = join(directory, "credentials.json");
  const made: Credentials = {
    accessKeyId: `MGRPO${randomBytes(10).toString("hex").toUpperCase()}`,
    secretAccessKey: randomBytes(30).toString("base64url"),
  };
  await writeFile(path, JSON.stringify(made), { flag: "wx", mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  return parseJson(Credentials, await readFile(path), path);
}

/** Only the key id, for where a signature would prove nothing more: who can reach 127.0.0.1 and read the id can read the secret. */
export function openKeyVerifier({ accessKeyId }: Credentials) {
  return async ({ headers }: Pick<ReceivedRequest, "headers">): Promise<void> => {
    if (/\bCredential=([^/]+)\//.exec(headers.authorization ?? "")?.[1] === accessKeyId) return;
    throw new AuthenticationError("another-key", "this is another cloud's key");
  };
}
