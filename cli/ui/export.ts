/**
 * @file A page of the dashboard as one file that is safe to share: it holds its views and its script, sends and loads nothing, and shows what
 * models, tools and web pages wrote as text, never as markup.
 */
import { createHash } from "node:crypto";
import { basename } from "node:path";
import { html, raw } from "hono/html";
import { parse } from "../../core/contracts/parse.ts";
import { isMgrpoError } from "../../core/errors.ts";
import { Export } from "../../ui/export-view.ts";
import type { StepView, TokenView, Tree } from "../../ui/views.ts";
import { type NoteOf, notesOf } from "../notes.ts";
import type { Address } from "../show/load.ts";
import type { Source } from "../show/source.ts";
import { casesView } from "./evaluations.ts";
import { pageFile, pageStyle } from "./page-files.ts";
import { groupView, rolloutView, stepView } from "./step.ts";
import { timelineView } from "./timeline.ts";
import { type TrajectoryAddress, tokenView } from "./tokens.ts";

/** Views of the API by path. */
type Views = Record<string, unknown>;

/** @param address a training step, or a group or rollout of it; `cases`: the run's case studies. */
export async function exportPage(source: Source, address: Address | "cases"): Promise<string> {
  const { config } = source;
  const path = address === "cases" ? "cases" : `steps/${Object.values(address).join("/")}`;
  const start = `/runs/${config.run}/${path}`;
  const noteOf = await notesOf(config.recipe);
  // The outer read keeps the store of a local run open while the views read it: opening the store takes longer than reading one view.
  const views = await source.read(
    async (): Promise<Views> =>
      address === "cases"
        ? { [`/api${start}`]: await casesView(source) }
        : viewsOf(source, `/api/runs/${config.run}/steps`, address, noteOf),
  );
  // Without the folders above the recipe: the file may be sent to others.
  const about = `${basename(config.recipe)}, ${config.arm}, seed ${config.seed}`;
  const page = parse(Export, JSON.parse(JSON.stringify({ start, about, views })), `export of ${start}`);
  return drawPage(`${config.run}, ${path}`, page);
}

async function viewsOf(
  source: Source,
  path: string,
  { step, group, rollout }: Address,
  noteOf: NoteOf,
): Promise<Views> {
  if (group === undefined) return stepViews(source, path, step, noteOf);
  if (rollout === undefined) return { [`${path}/${step}/${group}`]: await groupView(source, step, group, noteOf) };
  const view = await rolloutView(source, step, group, rollout, noteOf);
  const own = `${path}/${step}/${group}/${rollout}`;
  const views: Views = { [own]: { ...view, sameQuestion: [] } };
  for (const trajectory of trajectoriesOf(view.tree)) {
    const tokens = await findTokens(source, { step, group, rollout, trajectory });
    if (tokens) views[`${own}/tokens?trajectory=${encodeURIComponent(trajectory)}`] = tokens;
  }
  return views;
}

/** Undefined if the store has no manifest of the trajectory's version, which names the tokenizer: the page then offers no tokens. */
async function findTokens(source: Source, address: TrajectoryAddress): Promise<TokenView | undefined> {
  try {
    return await tokenView(source, address);
  } catch (error) {
    if (isMgrpoError(error, "not-found")) return undefined;
    throw error;
  }
}

const trajectoriesOf = ({ trajectory, children }: Tree): string[] => [
  ...(trajectory === undefined ? [] : [trajectory]),
  ...children.flatMap(trajectoriesOf),
];

/** A step with all its groups and rollouts, without their tokens. */
async function stepViews(source: Source, path: string, step: number, noteOf: NoteOf): Promise<Views> {
  const first = await stepView(source, step, { order: "group", page: 0 }, noteOf);
  const groups = [...first.groups];
  for (let page = 1; page < first.pages; page++)
    groups.push(...(await stepView(source, step, { order: "group", page }, noteOf)).groups);
  const all: StepView = { ...first, groups, hasNext: false };
  const views: Views = { [`${path}/${step}`]: all, [`${path}/${step}/timeline`]: await timelineView(source, step) };
  for (const { group } of groups) views[`${path}/${step}/${group}`] = await groupView(source, step, group, noteOf);
  return views;
}

async function drawPage(title: string, page: Export): Promise<string> {
  const [script, style] = [await pageFile("export.js"), await pageStyle()];
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf(script)}'`,
    `style-src '${hashOf(style)}'`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  // Without `<`, no text in the views can end the script element that holds them.
  const views = JSON.stringify(page).replaceAll("<", "\\u003c");
  const drawn = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${raw(style)}</style>
</head>
<body><noscript>This page needs JavaScript, but loads nothing. \`mgrpo show\` prints the same as text.</noscript>
<script type="application/json" id="views">${raw(views)}</script>
<script type="module">${raw(script)}</script>
</body>
</html>
`;
  return String(drawn);
}

const hashOf = (text: string): string => `sha256-${createHash("sha256").update(text).digest("base64")}`;
