/** @file How the reader calls this program: from a checkout through npm, installed by its name. */
import { existsSync } from "node:fs";
import { builtModule } from "../../built-module.ts";

export const MGRPO = existsSync(new URL("../../../build.mjs", builtModule("cli/terminal/name")))
  ? "npm run mgrpo --"
  : "mgrpo";
