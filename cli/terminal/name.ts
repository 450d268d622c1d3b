/** @file How the reader calls this program: from a checkout through npm, installed through npx. */
import { existsSync } from "node:fs";
import { built } from "../../core/built.ts";

export const MGRPO = existsSync(new URL("../../../build.mjs", built("cli/terminal/name")))
  ? "npm run mgrpo --"
  : "npx mgrpo";
