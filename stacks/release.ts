/**
 * @file The program as instances get it: the archive of `npm run pack` and the lock file, under their hashes. The archive has to be of the
 * checkout that is deployed, since the functions are made of its sources; and whoever launches runs there has the same (cli/launch.ts).
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
  readonly key: string;
  readonly sha256: string;
}

/** Uploads both. An archive of another release is refused. */
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
  new aws.s3.BucketObjectv2(name, { bucket: bucket.name, key, source: $asset(file) });
  return { key, sha256 };
}
