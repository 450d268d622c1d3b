/** @file The recipe that `npm create mgrpo` and `mgrpo init` write, in a project that finds this package. */
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/** Makes the project in `folder`, with the recipe in its folder team/, whose path it returns. */
export function createdTeam(folder: string, project: string): string {
  const team = join(folder, project, "team");
  cpSync(join(ROOT, "create/template/team"), team, { recursive: true });
  writeFileSync(join(folder, project, "package.json"), JSON.stringify({ type: "module" }));
  mkdirSync(join(folder, project, "node_modules"));
  symlinkSync(ROOT, join(folder, project, "node_modules/mgrpo"), "junction");
  symlinkSync(join(ROOT, "node_modules/zod"), join(folder, project, "node_modules/zod"), "junction");
  return team;
}
