/** @file The program as instances get it: the archive of `npm pack` and the lock file, under their hashes. */
/// <reference path="../.sst/platform/config.d.ts" />
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";

export interface Release {
  readonly archive: ReleaseFile;
  readonly lock: ReleaseFile;
}

interface ReleaseFile {
  readonly key: string;
  readonly sha256: string;
}

/** Uploads both. SST runs this in the root of the repository. */
export function createRelease(bucket: sst.aws.Bucket): Release {
  const { name, version } = JSON.parse(readFileSync("package.json", "utf8")) as { name: string; version: string };
  const archive = `${name}-${version}.tgz`;
  if (!existsSync(archive))
    throw new Error(`${archive} is missing: run npm pack first, or set MGRPO_FLEETS=none to deploy no workers`);
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
