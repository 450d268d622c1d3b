/** @file `mgrpo init`: writes the recipe of `npm create mgrpo` into an existing project. */
import { cpSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { MgrpoError } from "../core/errors.ts";

/** Throws `config-invalid` when the folder exists, since nothing is overwritten, or cannot be written. */
export function init(folder: string): void {
  if (existsSync(folder)) {
    throw new MgrpoError(
      "config-invalid",
      `${folder} exists: name a folder that does not, such as \`mgrpo init my-team\``,
    );
  }
  const root = dirname(createRequire(import.meta.url).resolve("mgrpo/package.json"));
  try {
    cpSync(join(root, "create", "template", "team"), folder, { recursive: true });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new MgrpoError(
      "config-invalid",
      `${folder} cannot be written (${code}): name a folder that you can write to`,
    );
  }
  console.log(
    `Wrote ${folder}: its recipe.ts says what is in it. Next:\n\n  npm install zod\n  npx mgrpo train ${folder}\n`,
  );
}
