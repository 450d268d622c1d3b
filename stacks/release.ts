/**
 * @file The program that instances run: the archive from `npm run pack` and the lock file, under their hashes. The archive must match the
 * deployed checkout, from whose sources the functions are built, and a run must be launched from the same release (cli/deployment.ts).
 */
/// <reference path="../.sst/platform/config.d.ts" />
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { checkoutRelease, readPackage, refuseOtherArchive } from "./archive.ts";

export interface Release {
  readonly archive: ReleaseFile;
  readonly lock: ReleaseFile;
}

interface ReleaseFile {
  /** Known once the file is uploaded: no launch template names a file that the bucket does not have yet. */
  readonly key: $util.Output<string>;
  readonly sha256: string;
}

/** Uploads the archive and the lock file. Throws if the archive is missing, or if its release is not that of this checkout. */
export function createRelease(bucket: sst.aws.Bucket): Release {
  const { name, version } = readPackage();
  const archive = `${name}-${version}.tgz`;
  if (!existsSync(archive))
    throw new Error(`${archive} is missing: run npm run pack first, or set MGRPO_FLEETS=none to deploy no workers`);
  refuseOtherArchive(archive, checkoutRelease());
  return {
    archive: upload("ReleaseArchive", archive, bucket),
    lock: upload("ReleaseLock", "package-lock.json", bucket),
  };
}

function upload(name: string, file: string, bucket: sst.aws.Bucket): ReleaseFile {
  const sha256 = createHash("sha256").update(readFileSync(file)).digest("hex");
  const key = `releases/${sha256}/${file}`;
  const uploaded = new aws.s3.BucketObjectv2(name, { bucket: bucket.name, key, source: $asset(file) });
  return { key: uploaded.key, sha256 };
}
