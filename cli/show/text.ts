/** @file Draws a tree on a terminal. Control characters of model and page text never reach it. */
import colors from "picocolors";
import { clean } from "../terminal/clean.ts";
import type { Tag, Tree } from "./tree.ts";

const BODY_CHARACTERS = 400;

const TONES: Record<Tag["tone"], (text: string) => string> = {
  good: colors.green,
  bad: colors.red,
  plain: (text) => text,
  faint: colors.dim,
};

export function drawText(tree: Tree): string {
  return [heading(tree), ...body(tree).map((line) => `  ${colors.dim(line)}`), ...branches(tree, "")].join("\n");
}

function branches(tree: Tree, indent: string): string[] {
  return tree.children.flatMap((child, i) => drawBranch(child, indent, i === tree.children.length - 1));
}

/** Lines of a tree that hangs on another; `last`: nothing hangs below it there. */
export function drawBranch(tree: Tree, indent: string, last: boolean): string[] {
  const below = indent + (last ? "   " : "│  ");
  return [
    `${colors.dim(indent + (last ? "└─ " : "├─ "))}${heading(tree)}`,
    ...body(tree).map((line) => colors.dim(`${below}${tree.children.length > 0 ? "│ " : "  "}${line}`)),
    ...branches(tree, below),
  ];
}

function heading({ title, tags }: Tree): string {
  return [colors.bold(clean(title)), ...tags.map(({ text, tone }) => TONES[tone](clean(text)))].join("  ");
}

function body({ body: text }: Tree): string[] {
  if (text === undefined || text === "") return [];
  const cut = text.length > BODY_CHARACTERS ? `${text.slice(0, BODY_CHARACTERS)} … (${text.length} characters)` : text;
  return cut.trim().split("\n").map(clean);
}
