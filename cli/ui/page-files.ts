/** @file The files of the dashboard's page, as build.mjs puts them into dist/. */
import { readFile } from "node:fs/promises";
import { builtModule } from "../../built-module.ts";

/** In cascade order: of two rules of equal specificity, the later one wins. */
const STYLES = ["page", "tables", "rollouts", "timeline"];

export const pageFile = (name: string): Promise<string> => readFile(new URL(name, builtModule("ui/app/main")), "utf8");

/** All style sheets as one. */
export async function pageStyle(): Promise<string> {
  return (await Promise.all(STYLES.map((name) => pageFile(`style/${name}.css`)))).join("");
}
