/**
 * @file HTML as Markdown, through turndown, with absolute links: Readability's main content, or the whole body of a page without any
 * (lists, front pages).
 */
import { highlightedCodeBlock, strikethrough, taskListItems } from "@joplin/turndown-plugin-gfm";
import { isProbablyReaderable, Readability } from "@mozilla/readability";
import { parseHTML } from "linkedom";
import { defaultTreeAdapter, parse, serialize } from "parse5";
import TurndownService from "turndown";
import { type Document, type Extracted, MAX_LINK, TOO_COMPLEX } from "./document.ts";
import { removeHidden } from "./hidden.ts";
import { tables } from "./tables.ts";

/** Levels of elements. Browsers flatten deeper ones, and libraries take quadratic time for them. */
const MAX_DEPTH = 512;

/** What browsers do not show as text of the page: scripts and styles, media with their fallback text, other documents, inputs of forms. */
const NO_TEXT = [
  ...["script", "style", "template", "noscript", "link", "meta", "svg", "canvas", "audio", "video"],
  ...["iframe", "object", "embed", "noembed", "noframes", "form input", "datalist"],
].join();

/**
 * Elements whose content browsers, and so parse5, do not parse as markup. linkedom does: a closing tag in it could end the element, and what
 * follows would be text of the page.
 */
const RAW_TEXT: ReadonlySet<string> = new Set(["script", "style", "noscript", "iframe", "noembed", "noframes"]);

export function extractHtml(html: string, { url }: Pick<Document, "url">): Extracted {
  // linkedom needs the tags that HTML lets authors omit; parse5 adds them.
  const complete = completed(html);
  if (complete === undefined) return TOO_COMPLEX;
  const { document } = parseHTML(complete);
  const base = baseOf(document, url);
  for (const node of document.querySelectorAll(NO_TEXT)) node.remove();
  // Only now: an SVG has a title of its own.
  const title = document.querySelector("title")?.textContent?.trim() ?? "";
  removeHidden(document);
  for (const [selector, attribute] of [
    ["a[href]", "href"],
    ["img[src]", "src"],
  ] as const) {
    for (const node of document.querySelectorAll(selector)) {
      const link = absoluteLink(node.getAttribute(attribute) ?? "", base);
      if (link === undefined) node.removeAttribute(attribute);
      else node.setAttribute(attribute, link);
    }
  }
  // A page can hide its root element, and its body with it.
  const body = document.documentElement ? document.body.innerHTML : "";
  const article = isProbablyReaderable(document) ? new Readability(document).parse() : null;
  return {
    title: withoutSoftHyphens(article?.title?.trim() || title),
    text: withoutSoftHyphens(markdownOf(article?.content || body)),
  };
}

/** Soft hyphens mark where a browser may break a word. An answer that repeats one equals no reference. */
const withoutSoftHyphens = (text: string): string => text.replaceAll("\u00ad", "");

/** The page with all its tags, without raw text. Undefined: it is too deep; parsing stops at that depth. */
function completed(html: string): string | undefined {
  let depth = 0;
  const treeAdapter = {
    ...defaultTreeAdapter,
    insertText(...[parent, text]: Parameters<typeof defaultTreeAdapter.insertText>) {
      if (!RAW_TEXT.has(parent.nodeName)) defaultTreeAdapter.insertText(parent, text);
    },
    onItemPush() {
      depth += 1;
      if (depth > MAX_DEPTH) throw new TooDeep();
    },
    onItemPop() {
      depth -= 1;
    },
  };
  try {
    return serialize(parse(html, { treeAdapter }));
  } catch (error) {
    if (error instanceof TooDeep) return undefined;
    throw error;
  }
}

class TooDeep extends Error {}

/**
 * Undefined: it is not an HTTP link, or is too long to be shown. Parentheses are percent-encoded: Markdown would escape them with backslashes,
 * and an agent that copies the link would open another address, since a URL's path cannot have a backslash.
 */
function absoluteLink(target: string, base: string): string | undefined {
  if (target.length > MAX_LINK || !URL.canParse(target, base)) return undefined;
  const { protocol, href } = new URL(target, base);
  const link = href.replaceAll("(", "%28").replaceAll(")", "%29");
  return /^https?:$/.test(protocol) && link.length <= MAX_LINK ? link : undefined;
}

function baseOf(document: { querySelector(selector: string): Element | null }, url: string): string {
  const base = document.querySelector("base[href]")?.getAttribute("href");
  return base && base.length <= MAX_LINK && URL.canParse(base, url) ? new URL(base, url).href : url;
}

type Element = { getAttribute(name: string): string | null };

/** In characters. */
const MAX_EXPONENT = 20;
const superscriptOf = (node: TurndownService.Node) => node.textContent?.trim() ?? "";

/**
 * Exponents, which would join the digits before them: 10 to the power of 24 would be 1024. Not references, which are links, and not the letters
 * of ordinals and abbreviations in many languages, such as XIXe, 3a and No.
 */
const EXPONENT: TurndownService.Rule = {
  filter(node) {
    const text = node.nodeName === "SUP" ? superscriptOf(node) : "";
    return text.length <= MAX_EXPONENT && /\d|^[ijkmnptxyz]$/.test(text) && !node.querySelector("a");
  },
  replacement(content, node) {
    const text = superscriptOf(node);
    if (node.querySelector("sup, sub")) return `^(${content.trim()})`;
    return /^[-+−–]?[\p{L}\p{N}.,]+$/u.test(text) ? `^${text}` : `^(${text})`;
  },
};

const TEX = 'annotation[encoding="application/x-tex"]';

/** A formula with its source in TeX, as KaTeX and LaTeXML write it: its other parts, which have the same content, would run together. */
const FORMULA: TurndownService.Rule = {
  filter: (node) => node.nodeName.toLowerCase() === "math" && node.querySelector(TEX) !== null,
  replacement: (_content, node) => `$${node.querySelector(TEX)?.textContent?.trim()}$`,
};

function markdownOf(html: string): string {
  const turndown = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
  turndown.use([highlightedCodeBlock, strikethrough, taskListItems, tables]);
  turndown.addRule("exponent", EXPONENT);
  turndown.addRule("formula", FORMULA);
  return turndown
    .turndown(html)
    .replace(/[ \t]+\n/g, "\n")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}
