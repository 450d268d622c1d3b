/** @file Draws a tree on a terminal, wrapped to its width. Control characters in the output of models and pages never reach it. */
import colors from "picocolors";
import type { Tag, Tree } from "../../ui/views.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { hanging } from "../terminal/rows.ts";

const BODY_CHARACTERS = 400;

const TONES: Record<Tag["tone"], (text: string) => string> = {
  good: colors.green,
  bad: colors.red,
  plain: (text) => text,
  faint: colors.dim,
};

export function drawText(tree: Tree): string {
  return [...hanging("", heading(tree), "  "), ...bodyLines(tree, "  "), ...childLines(tree, "")].join("\n");
}

function childLines(tree: Tree, indent: string): string[] {
  return tree.children.flatMap((child, i) => drawSubtree(child, indent, i === tree.children.length - 1));
}

/** The lines of a subtree. `isLast`: the tree is its parent's last child. */
export function drawSubtree(tree: Tree, indent: string, isLast: boolean): string[] {
  const below = indent + (isLast ? "   " : "│  ");
  const textIndent = `${below}${tree.children.length > 0 ? "│ " : "  "}`;
  return [
    ...hanging(colors.dim(indent + (isLast ? "└─ " : "├─ ")), heading(tree), colors.dim(textIndent)),
    ...bodyLines(tree, textIndent),
    ...childLines(tree, below),
  ];
}

function heading({ title, tags }: Tree): string {
  return [
    colors.bold(stripControlCharacters(title)),
    ...tags.map(({ text, tone }) => TONES[tone](stripControlCharacters(text))),
  ].join("  ");
}

function bodyLines({ note, body = "" }: Tree, indent: string): string[] {
  // Never half of a surrogate pair.
  const start = body.slice(0, BODY_CHARACTERS).replace(/[\uD800-\uDBFF]$/, "");
  const cut = body.length > BODY_CHARACTERS ? `${start} … (${body.length} characters)` : body;
  const lines = [...(note === undefined ? [] : [`note: ${note}`]), ...(body === "" ? [] : cut.trim().split("\n"))];
  return lines.flatMap((line) => hanging(indent, stripControlCharacters(line))).map((line) => colors.dim(line));
}
