/**
 * @file `npm run docs:screenshots`: pictures of the terminal, of an exported page and of the dashboard, from a short run of the default
 * recipe. Needs util-linux's `script`, and Chromium (chromium.ts). The pictures are in docs/; retake them when a view changes.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import serialize from "@xterm/addon-serialize";
import xterm from "@xterm/headless";
import { requireChromium } from "./chromium.ts";
import { captureDashboard, captureExport } from "./ui-screenshots.ts";

const DOCS = resolve(import.meta.dirname, "..");
const MGRPO = `node ${resolve(DOCS, "../dist/cli/mgrpo.js")}`;
const RUN = "atlas-screenshots";
const COLUMNS = 118;
const ROWS = 60;
const CELL = { width: 9.05, height: 18 };

const folder = mkdtempSync(join(tmpdir(), "mgrpo-screenshots-"));
try {
  await terminal("terminal-train.png", `${MGRPO} train recipes/atlas --steps 6 --seed 7 --run ${RUN}`);
  await terminal("terminal-show.png", `${MGRPO} show ${RUN} 3/0/1`);
  await page("page-step.png", "5");
  await captureDashboard(".", RUN, DOCS);
} finally {
  rmSync(folder, { recursive: true, force: true });
  rmSync(join("runs", RUN), { recursive: true, force: true });
}

/** Takes a picture of what a terminal shows when the command has ended. */
async function terminal(name: string, command: string): Promise<void> {
  const screen = new xterm.Terminal({ cols: COLUMNS, rows: ROWS, allowProposedApi: true });
  const serializer = new serialize.SerializeAddon();
  screen.loadAddon(serializer);
  const sized = `stty cols ${COLUMNS} rows ${ROWS}; ${command}`;
  const { stdout, status, error } = spawnSync("script", ["-qec", sized, "/dev/null"], { maxBuffer: 1e8 });
  if (error || status !== 0) throw new Error(`${name}: '${command}' failed: ${stdout ?? ""}`, { cause: error });
  await new Promise<void>((written) => screen.write(stdout, written));
  const { active } = screen.buffer;
  const texts = Array.from({ length: active.length }, (_, row) => active.getLine(row)?.translateToString(true) ?? "");
  const rows = texts.findLastIndex((text) => text !== "") + 1;
  const html = serializer.serializeAsHTML({ includeGlobalBackground: true });
  const style = `<style>body{margin:0;background:#000}pre{margin:12px;line-height:${CELL.height}px}</style>`;
  const size = { width: Math.ceil(COLUMNS * CELL.width) + 24, height: rows * CELL.height + 24 };
  capture(name, html.replace("<body>", `<head>${style}</head><body>`), size);
}

/** Takes a picture of the page that `mgrpo show --html` writes. */
async function page(name: string, address: string): Promise<void> {
  const path = join(folder, "page.html");
  execFileSync("sh", ["-c", `${MGRPO} show ${RUN} ${address} --html ${path}`], { stdio: "inherit" });
  await captureExport(path, join(DOCS, name), { width: 1100, height: 640 });
}

interface Size {
  readonly width: number;
  readonly height: number;
}

function capture(name: string, html: string, { width, height }: Size): void {
  const path = join(folder, `${name}.html`);
  writeFileSync(path, html);
  const flags = ["--headless", "--no-sandbox", "--hide-scrollbars", `--window-size=${width},${height}`];
  execFileSync(requireChromium(), [...flags, `--screenshot=${join(DOCS, name)}`, `file://${path}`], { stdio: "pipe" });
}
