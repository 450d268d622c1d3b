/**
 * @file The leakage guard: recognizes pages that would answer a benchmark for the agent, which the tools withhold and count. These are pages
 * of the known benchmarks, whatever host serves them; pages that the settings name; and any page that contains the question almost verbatim.
 */
import { toStreamSafe } from "../../../../core/conversation/stream-safe.ts";

/**
 * The datasets of WebWalkerQA, GAIA and xbench, in the format of `addressOf`. Mirrors, APIs, forks and archives keep the name. `gaia` alone is also
 * a goddess and a space telescope, so it counts only on a dataset host.
 */
const DATA_SETS = [
  /webwalkerqa/,
  /\/gaiabenchmark\//,
  /\/datasets?\/xbench\//,
  /xbench(?:ai\/|evals|deepsearch|scienceqa)/,
  /\/\w*(?:huggingface|hfmirror|modelscope)\w*\/(?:.*\/)?datasets?\/[^/]+\/gaia\//,
];

/** Other pages with their questions. Hosts include subdomains; paths include all paths below them. */
const BENCHMARK_PAGES = [
  "xbench.org",
  "github.com/Alibaba-NLP/WebWalker",
  "github.com/Alibaba-NLP/WebAgent",
  "raw.githubusercontent.com/Alibaba-NLP",
];

/** In tokens: words, or characters of scripts without spaces. A shorter question may occur on an unrelated page. */
const GRAM = 8;
/**
 * Share of the question's n-grams that a page must contain. A changed token is in up to 8 of them, so a page may change any one token of a
 * question of 87 tokens or more; a shorter question must be complete, except perhaps for tokens at its ends.
 */
const COPIED_SHARE = 0.9;

export interface LeakageGuard {
  /** The addresses that the settings block. */
  readonly blocked: string[];
  /** Whether the address belongs to a known benchmark or is blocked by the settings. */
  isBlocked(url: URL): boolean;
  /** Whether the text contains the question almost verbatim. False for a question of fewer than GRAM tokens. */
  leaksQuestion(text: string, question: string): boolean;
}

export function leakageGuard(blocked: string[]): LeakageGuard {
  const entries = [...BENCHMARK_PAGES, ...blocked].map((entry) => {
    const slash = `${entry}/`.indexOf("/");
    return { host: hostOf(entry.slice(0, slash)), path: pathOf(entry.slice(slash)) };
  });
  // The latest check: the K rollouts of a question that wait for one page check it one after the other, and a long page takes up to a second.
  let last = { text: "", question: "", isLeak: false };
  return {
    blocked,
    isBlocked(url) {
      const host = url.hostname.toLowerCase().replace(/\.$/, "");
      const path = pathOf(url.pathname);
      const pathAndQuery = pathOf(url.pathname + url.search);
      const isListed = entries.some(
        (entry) =>
          (host === entry.host || host.endsWith(`.${entry.host}`)) &&
          (pathAndQuery === entry.path || `${path}/`.startsWith(`${entry.path}/`)),
      );
      const address = addressOf(url);
      return isListed || DATA_SETS.some((name) => name.test(address));
    },
    leaksQuestion(text, question) {
      if (last.text !== text || last.question !== question)
        last = { text, question, isLeak: containsQuestion(text, question) };
      return last.isLeak;
    },
  };
}

function containsQuestion(text: string, question: string): boolean {
  const questionTokens = tokensOf(question);
  if (questionTokens.length < GRAM) return false;
  const wanted = new Set(questionTokens.slice(GRAM - 1).map((_, i) => gramAt(questionTokens, i)));
  return countFound(tokensOf(text), wanted, new Set(questionTokens)) >= COPIED_SHARE * wanted.size;
}

/** How many of the n-grams occur in the text. `starts`: all tokens that can start one. */
function countFound(tokens: readonly string[], wanted: ReadonlySet<string>, starts: ReadonlySet<string>): number {
  const found = new Set<string>();
  for (const [i, token] of tokens.entries()) {
    if (!starts.has(token)) continue;
    const gram = gramAt(tokens, i);
    if (wanted.has(gram)) found.add(gram);
  }
  return found.size;
}

const gramAt = (tokens: readonly string[], i: number): string => tokens.slice(i, i + GRAM).join(" ");

/** Scripts without spaces between words: every character is a token. */
const UNSPACED =
  "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}";
const TOKEN = new RegExp(`[${UNSPACED}]|(?:(?![${UNSPACED}])[\\p{L}\\p{M}\\p{N}])+`, "gu");

/** `[words](https://…)`: the address would interrupt the words. */
const LINK_TARGET = /\]\([^()\s]{1,2000}(?:\s+"[^"\n]{0,500}")?\)/g;
/** As written in the cell of a Markdown table, and in dumps of HTML. */
const LINE_BREAK = /(?:<|&(?:amp;)*lt;)br\s*\/?(?:>|&(?:amp;)*gt;)/gi;
/** `m^2` is `m²`, which NFKC makes `m2`. */
const EXPONENT = /\^\(?/g;
/** Zero-width characters and soft hyphens. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu;
const ENTITY = /&#(?:x([0-9a-f]{1,6})|(\d{1,7}));/gi;
/** The predefined entities of XML except `&amp;`, which is replaced first, as it can begin any other one. */
const NAMED_ENTITY = /&(?:quot|apos|lt|gt);/gi;

/** Words and characters, without case, punctuation, addresses of links or line-break tags. JSON and XML dumps escape some characters. */
function tokensOf(text: string): readonly string[] {
  const plain = text
    .replace(LINE_BREAK, " ")
    .replace(LINK_TARGET, "]")
    .replace(/\\u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replace(/&(?:amp;)+/gi, "&")
    .replace(NAMED_ENTITY, " ")
    .replace(ENTITY, (entity, hex?: string, decimal?: string) => {
      const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : entity;
    })
    .replace(INVISIBLE, "")
    .replace(EXPONENT, "")
    .replace(/\\[nrt]/g, " ");
  return toStreamSafe(plain).normalize("NFKC").toLowerCase().match(TOKEN) ?? [];
}

/** The host as the addresses of pages have it: in lower case, and in Punycode if it is not ASCII. Without `*.`: subdomains are always included. */
function hostOf(entry: string): string {
  const host = entry.replace(/^\*?\./, "");
  const address = `http://${host}`;
  return URL.canParse(address) ? new URL(address).hostname : host.toLowerCase();
}

/** Ignores case, escapes, and doubled or trailing slashes. */
function pathOf(path: string): string {
  const parts = decode(path).split("/").filter(Boolean);
  return parts.map((part) => `/${part.toLowerCase()}`).join("");
}

/** Host, path and query in letters and digits, with a slash between their parts: `/huggingfaceco/datasets/gaiabenchmark/gaia/`. */
function addressOf({ hostname, pathname, search }: URL): string {
  const plain = toStreamSafe(decode(decode(`${hostname}${pathname}${search}`)))
    .normalize("NFKC")
    .toLowerCase();
  return `/${plain.replace(/[-_.]/g, "").replace(/[^\p{L}\p{N}]+/gu, "/")}/`.replace(/\/+/g, "/");
}

/** Leaves escapes that are not valid UTF-8 unchanged. */
function decode(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes;
    }
  });
}
