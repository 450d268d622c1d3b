/** @file The release of a checkout, and of an archive from `npm run pack`: the version, and the hash of what workers run. Does not need SST. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** The file of a package with the hash of what workers run (build.mjs). */
const HASH_FILE = "dist/release";

/** `<version>+<hash>` of this checkout, as its workers report it. SST runs this in the root of the repository. */
export function checkoutRelease(): string {
  execFileSync(process.execPath, ["build.mjs"]);
  return `${readPackage().version}+${readFileSync(HASH_FILE, "utf8")}`;
}

/** Throws unless the archive at this path contains release `wanted`. */
export function refuseOtherArchive(archive: string, wanted: string): void {
  const { version } = JSON.parse(packed(archive, "package.json")) as { version: string };
  const release = `${version}+${packed(archive, HASH_FILE)}`;
  if (release !== wanted)
    throw new Error(
      `${archive} holds release ${release}, but this checkout is ${wanted}: run npm run pack again, then deploy, both with the same MGRPO_PROJECT or both without`,
    );
}

function packed(archive: string, file: string): string {
  try {
    return execFileSync("tar", ["-xzOf", archive, `package/${file}`], { encoding: "utf8", stdio: "pipe" });
  } catch (cause) {
    throw new Error(`${archive} is not an archive of this package: it has no ${file}; run npm run pack again`, {
      cause,
    });
  }
}

export function readPackage(): { readonly name: string; readonly version: string } {
  return JSON.parse(readFileSync("package.json", "utf8"));
}
