/** @file `mgrpo init`: writes the recipe of `npm create mgrpo` into an existing project, and has git ignore what the program writes. */
import { appendFileSync, cpSync, existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, isAbsolute, join, relative, sep } from "node:path";
import { MgrpoError } from "../core/errors.ts";
import { MGRPO, quotedPath } from "./terminal/name.ts";

const GITIGNORE = ".gitignore";
/** What the recipe imports. */
const IMPORTED = ["mgrpo", "zod"];

/** Throws `config-invalid` when the folder exists, since nothing is overwritten, or cannot be written. */
export function init(folder: string): void {
  if (existsSync(folder)) {
    throw new MgrpoError(
      "config-invalid",
      `${folder} exists: name a folder that does not, such as \`mgrpo init my-team\``,
    );
  }
  const template = join(dirname(createRequire(import.meta.url).resolve("mgrpo/package.json")), "create", "template");
  const before = existsSync(GITIGNORE) ? readFileSync(GITIGNORE, "utf8") : "";
  const rules = missingRules(before, readFileSync(join(template, "_gitignore"), "utf8"), folder);
  writing(folder, "name a folder that you can write to", () =>
    cpSync(join(template, "team"), folder, { recursive: true }),
  );
  if (rules.length > 0) {
    const start = before === "" || before.endsWith("\n") ? "" : "\n";
    writing(GITIGNORE, `add to it, to keep keys out of git: ${rules.join(" ")}`, () =>
      appendFileSync(GITIGNORE, `${start}${rules.join("\n")}\n`),
    );
  }
  const added = rules.length === 0 ? "" : `Added to ${GITIGNORE}: ${rules.join(" ")}\n`;
  const lacking = IMPORTED.filter((name) => !isInstalled(name));
  const install = lacking.length === 0 ? "" : `  npm install ${lacking.join(" ")}\n`;
  console.log(
    `Wrote ${folder}: its recipe.ts says what is in it.\n${added}Next:\n\n${install}  ${MGRPO} train ${quotedPath(folder)}\n`,
  );
}

/** Whether the project finds the package. It may lack mgrpo itself, which npx can run from elsewhere. */
function isInstalled(name: string): boolean {
  try {
    createRequire(join(process.cwd(), GITIGNORE)).resolve(`${name}/package.json`);
    return true;
  } catch {
    return false;
  }
}

/** Which of the template's rules a .gitignore lacks, with `folder` in place of team/. */
function missingRules(before: string, template: string, folder: string): string[] {
  const own = new Set(before.split("\n").map(bare));
  const path = relative(process.cwd(), folder).replaceAll(sep, "/");
  const isInside = !path.startsWith("..") && !isAbsolute(path);
  const rules = template.split("\n").flatMap((rule) => {
    if (!rule.startsWith("/team/")) return rule;
    return isInside ? `/${path}${rule.slice("/team".length)}` : [];
  });
  return rules.filter((rule) => rule !== "" && !rule.startsWith("#") && !own.has(bare(rule)));
}

/** `/runs/`, `runs/` and `runs` ignore the same folder here. */
const bare = (rule: string): string => rule.trim().replace(/^\/|\/$/g, "");

function writing(path: string, remedy: string, write: () => void): void {
  try {
    write();
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new MgrpoError("config-invalid", `${path} cannot be written (${code}): ${remedy}`);
  }
}
