/**
 * @file HTML as Markdown, through turndown, with absolute links: Readability's main content, or the whole body of a page without any
 * (lists, front pages).
 */
import { gfm } from "@joplin/turndown-plugin-gfm";
import { isProbablyReaderable, Readability } from "@mozilla/readability";
import { parseHTML } from "linkedom";
import { type DefaultTreeAdapterTypes, parse, serialize } from "parse5";
import TurndownService from "turndown";
import { type Extracted, TOO_COMPLEX } from "./document.ts";
import { removeHidden } from "./hidden.ts";

/** Levels of elements. Browsers flatten deeper ones, and some libraries take quadratic time for them. */
const MAX_DEPTH = 512;

/** What a human reader could not read. */
const NO_TEXT = "script, style, template, noscript, svg, canvas, iframe, object, embed, form input, link, meta";

export function extractHtml(html: string, url: string): Extracted {
  // linkedom needs the tags that HTML lets authors omit; parse5 adds them.
  const tree = parse(html);
  if (isDeeper(tree, MAX_DEPTH)) return TOO_COMPLEX;
  const { document } = parseHTML(serialize(tree));
  const title = document.querySelector("title")?.textContent?.trim() ?? "";
  const base = baseOf(document, url);
  for (const node of document.querySelectorAll(NO_TEXT)) node.remove();
  removeHidden(document);
  for (const [selector, attribute] of [
    ["a[href]", "href"],
    ["img[src]", "src"],
  ] as const) {
    for (const node of document.querySelectorAll(selector)) {
      const target = node.getAttribute(attribute) ?? "";
      const absolute = URL.canParse(target, base) ? new URL(target, base) : undefined;
      if (absolute && /^https?:$/.test(absolute.protocol)) node.setAttribute(attribute, absolute.href);
      else node.removeAttribute(attribute);
    }
  }
  const body = document.body.innerHTML;
  const article = isProbablyReaderable(document) ? new Readability(document).parse() : null;
  return { title: article?.title?.trim() || title, text: markdownOf(article?.content || body) };
}

function isDeeper(root: DefaultTreeAdapterTypes.ParentNode, levels: number): boolean {
  const open: { node: DefaultTreeAdapterTypes.ParentNode; level: number }[] = [{ node: root, level: 0 }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { node, level } = next;
    if (level > levels) return true;
    for (const child of node.childNodes) if ("childNodes" in child) open.push({ node: child, level: level + 1 });
  }
  return false;
}

function baseOf(document: { querySelector(selector: string): Element | null }, url: string): string {
  const base = document.querySelector("base[href]")?.getAttribute("href");
  return base && URL.canParse(base, url) ? new URL(base, url).href : url;
}

type Element = { getAttribute(name: string): string | null };

function markdownOf(html: string): string {
  const turndown = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
  turndown.use(gfm);
  return turndown
    .turndown(html)
    .replace(/[ \t]+\n/g, "\n")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}
