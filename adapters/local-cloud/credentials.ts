/**
 * @file One local cloud's random access keys, generated when its directory is first opened. A request with a different access key ID is
 * refused, so a worker of another cloud never writes here by mistake. Only the owner of the file can read it,
 * except on Windows, where file modes have no effect.
 */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, link, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { parseJson } from "../../core/contracts/parse.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { damagedStorage } from "./storage-faults.ts";

const Credentials = z.strictObject({ accessKeyId: z.string().min(1), secretAccessKey: z.string().min(1) });
export type Credentials = z.infer<typeof Credentials>;

const OWNER_ONLY = 0o600;

export async function openCredentials(directory: string): Promise<Credentials> {
  const path = join(directory, "credentials.json");
  if (!existsSync(path)) await createOnce(path, JSON.stringify(createCredentials()));
  await chmod(path, OWNER_ONLY);
  try {
    return parseJson(Credentials, await readFile(path), path);
  } catch (cause) {
    if (!isMgrpoError(cause)) throw cause;
    throw damagedStorage(path, "it does not contain access keys", "delete it, and new ones are generated", cause);
  }
}

/** Creates the file atomically, or leaves an existing one: a process killed here leaves no incomplete file at `path`. */
async function createOnce(path: string, content: string): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await writeFile(temporary, content, { flag: "wx", mode: OWNER_ONLY });
    await link(temporary, path).catch(ignoreExisting);
  } finally {
    await rm(temporary, { force: true });
  }
}

function createCredentials(): Credentials {
  return {
    accessKeyId: `MGRPO${randomBytes(10).toString("hex").toUpperCase()}`,
    secretAccessKey: randomBytes(30).toString("base64url"),
  };
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
