/** @file How the user runs this program: through npm in a checkout, by its name if it is installed. */
import { existsSync } from "node:fs";
import { builtModule } from "../../built-module.ts";

export const MGRPO = existsSync(new URL("../../../build.mjs", builtModule("cli/terminal/name")))
  ? "npm run mgrpo --"
  : "mgrpo";
