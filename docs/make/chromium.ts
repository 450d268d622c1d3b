/** @file Finds the browser for the screenshots in docs/ and for `npm run test:ui`. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

export const HOW_TO_GET_CHROMIUM =
  "install Chromium or Chrome so that it is on PATH (Debian: apt-get install chromium), or set MGRPO_CHROMIUM to its path";

/** The browser's path: MGRPO_CHROMIUM if set, else the first match on PATH; undefined if there is none. */
export function findChromium(): string | undefined {
  const { MGRPO_CHROMIUM: named, PATH = "" } = process.env;
  if (named) return named;
  const paths = PATH.split(delimiter).flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return paths.find(isExecutable);
}

/** Like `findChromium`, but throws if there is none, and says how to get one. */
export function requireChromium(): string {
  const found = findChromium();
  if (found) return found;
  throw new Error(`no Chromium or Chrome found: ${HOW_TO_GET_CHROMIUM}`);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
