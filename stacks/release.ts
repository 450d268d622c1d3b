/**
 * @file The program as instances get it: the archive of `npm pack` and the lock file, under their hashes. The archive has to be of the
 * checkout that is deployed, since the functions are made of its sources; and whoever launches runs there has the same (cli/launch.ts).
 */
/// <reference path="../.sst/platform/config.d.ts" />
import { execFileSync } from "node:child_process";
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

/** Where a package has the hash of what its workers run (build.mjs). */
const HASH = "dist/release";

/** `<version>+<hash>` of this checkout, as its workers say it. SST runs this in the root of the repository. */
export function checkoutRelease(): string {
  execFileSync(process.execPath, ["build.mjs"]);
  return `${readPackage().version}+${readFileSync(HASH, "utf8")}`;
}

/** Uploads both. An archive of another release is refused. */
export function createRelease(bucket: sst.aws.Bucket): Release {
  const { name, version } = readPackage();
  const archive = `${name}-${version}.tgz`;
  if (!existsSync(archive))
    throw new Error(`${archive} is missing: run npm pack first, or set MGRPO_FLEETS=none to deploy no workers`);
  refuseOtherArchive(archive, checkoutRelease());
  return {
    archive: upload("ReleaseArchive", archive, bucket),
    lock: upload("ReleaseLock", "package-lock.json", bucket),
  };
}

/** Throws unless the archive, a path, holds the program of release `wanted`. */
export function refuseOtherArchive(archive: string, wanted: string): void {
  const { version } = JSON.parse(packed(archive, "package.json")) as { version: string };
  const release = `${version}+${packed(archive, HASH)}`;
  if (release !== wanted)
    throw new Error(`${archive} holds release ${release}, this checkout is ${wanted}: run npm pack again, then deploy`);
}

function packed(archive: string, file: string): string {
  try {
    return execFileSync("tar", ["-xzOf", archive, `package/${file}`], { encoding: "utf8", stdio: "pipe" });
  } catch (cause) {
    throw new Error(`${archive} is no archive of this package, it has no ${file}: run npm pack again`, { cause });
  }
}

function readPackage(): { readonly name: string; readonly version: string } {
  return JSON.parse(readFileSync("package.json", "utf8"));
}

function upload(name: string, file: string, bucket: sst.aws.Bucket): ReleaseFile {
  const sha256 = createHash("sha256").update(readFileSync(file)).digest("hex");
  const key = `releases/${sha256}/${file}`;
  new aws.s3.BucketObjectv2(name, { bucket: bucket.name, key, source: $asset(file) });
  return { key, sha256 };
}
