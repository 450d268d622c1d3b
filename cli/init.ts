/**
 * @file `mgrpo init`: writes the recipe of `npm create mgrpo` into an existing project, and has git ignore what the program writes. It leaves
 * package.json, .npmrc and tsconfig.json alone, which apply to the whole project, and prints what to install and to add to .npmrc.
 */
import { appendFileSync, cpSync, existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, isAbsolute, join, relative, sep } from "node:path";
import { MgrpoError } from "../core/errors.ts";
import { hiddenRecipe } from "../recipes/registry.ts";
import { MGRPO, quotedPath } from "./terminal/name.ts";

const GITIGNORE = ".gitignore";
const NPMRC = ".npmrc";
const SKIP_SCRIPTS = "ignore-scripts=true";
/** What the recipe imports. */
const IMPORTED = ["mgrpo", "zod"];
/** What runs the recipe's own test, and checks its types. */
const TESTING = ["tsx", "typescript"];

/** Throws `config-invalid` if the folder exists, since nothing is overwritten, or if it or .gitignore cannot be written. */
export function init(folder: string): void {
  if (existsSync(folder)) {
    throw new MgrpoError("config-invalid", `${folder} already exists: give a new folder, as in \`mgrpo init my-team\``);
  }
  const template = join(dirname(createRequire(import.meta.url).resolve("mgrpo/package.json")), "create", "template");
  const before = contentOf(GITIGNORE);
  const rules = missingRules(before, readFileSync(join(template, "_gitignore"), "utf8"), folder);
  writing(folder, "name a folder that you can write to", () =>
    cpSync(join(template, "team"), folder, { recursive: true }),
  );
  if (rules.length > 0) {
    const start = before === "" || before.endsWith("\n") ? "" : "\n";
    writing(
      GITIGNORE,
      `add these rules to it, one per line, so that git ignores what mgrpo writes: ${rules.join(" ")}`,
      () => appendFileSync(GITIGNORE, `${start}${rules.join("\n")}\n`),
    );
  }
  const recipe = hiddenRecipe(folder) === undefined ? folder : `./${folder}`;
  const added = rules.length === 0 ? "" : `Added to ${GITIGNORE}: ${rules.join(" ")}\n`;
  console.log(
    `Wrote ${folder}: start with its recipe.ts.\n${added}${scriptsAdvice()}Next:\n\n` +
      `${installing("npm install", IMPORTED)}  ${MGRPO} train ${quotedPath(recipe)}\n\n` +
      `The recipe's own test:\n\n` +
      `${installing("npm install --save-dev", TESTING)}  node --import tsx --test ${quotedPath(join(folder, "recipe.test.ts"))}\n`,
  );
}

/** What to add to .npmrc. Empty: it is there. */
function scriptsAdvice(): string {
  const lines = contentOf(NPMRC)
    .replaceAll(/[ \t\r]/g, "")
    .split("\n");
  if (lines.includes(SKIP_SCRIPTS)) return "";
  return `Add ${SKIP_SCRIPTS} to ${NPMRC}, unless a package of yours needs its install script: mgrpo's dependencies need none, and one of them would download CUDA libraries.\n`;
}

/** The command that installs those of the packages that the project lacks. Empty: it has all. */
function installing(command: string, packages: readonly string[]): string {
  const lacking = packages.filter((name) => !isInstalled(name));
  return lacking.length === 0 ? "" : `  ${command} ${lacking.join(" ")}\n`;
}

const contentOf = (path: string): string => (existsSync(path) ? readFileSync(path, "utf8") : "");

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
    return isInside ? `/${literal(path)}${rule.slice("/team".length)}` : [];
  });
  return rules.filter((rule) => rule !== "" && !rule.startsWith("#") && !own.has(bare(rule)));
}

/** A path as a rule that matches only it: `*`, `?`, `[` and a backslash stand for themselves. */
const literal = (path: string): string => path.replace(/[\\*?[]/g, "\\$&");

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
