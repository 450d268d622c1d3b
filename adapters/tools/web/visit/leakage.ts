/**
 * @file The leakage guard withholds and counts pages that reveal a benchmark's answers. These are pages of the known benchmarks,
 * pages that the settings name, and any page that contains the question verbatim.
 */

/** Where the benchmarks of docs/benchmarks publish questions and answers. A host includes its subdomains, a path everything below it. */
const BENCHMARK_PAGES = [
  "huggingface.co/datasets/gaia-benchmark",
  "huggingface.co/spaces/gaia-benchmark",
  "huggingface.co/datasets/callanwu/WebWalkerQA",
  "huggingface.co/spaces/callanwu/WebWalkerQALeaderboard",
  "huggingface.co/datasets/xbench",
  "github.com/xbench-ai",
  "raw.githubusercontent.com/xbench-ai",
  "github.com/Alibaba-NLP/WebWalker",
  "github.com/Alibaba-NLP/WebAgent",
  "raw.githubusercontent.com/Alibaba-NLP",
];

/** In characters, after `plain`. A shorter question may occur on an unrelated page. */
const MIN_QUESTION = 60;

export interface LeakageGuard {
  /** Whether the address is a known benchmark's, or blocked by the settings. */
  isBlocked(url: URL): boolean;
  /** Whether the text contains the question. */
  leaksQuestion(text: string, question: string): boolean;
}

export function leakageGuard(blocked: readonly string[]): LeakageGuard {
  const entries = [...BENCHMARK_PAGES, ...blocked].map((entry) => {
    const slash = `${entry}/`.indexOf("/");
    return { host: entry.slice(0, slash).toLowerCase(), path: pathOf(entry.slice(slash)) };
  });
  return {
    isBlocked({ hostname, pathname }) {
      const host = hostname.toLowerCase().replace(/\.$/, "");
      const path = pathOf(pathname);
      return entries.some(
        (entry) =>
          (host === entry.host || host.endsWith(`.${entry.host}`)) &&
          (path === entry.path || path.startsWith(`${entry.path}/`) || entry.path === ""),
      );
    },
    leaksQuestion(text, question) {
      const asked = plain(question);
      return asked.length >= MIN_QUESTION && plain(text).includes(asked);
    },
  };
}

/** Ignores case, escapes, and doubled or trailing slashes. */
function pathOf(path: string): string {
  const parts = path.split("/").filter(Boolean).map(decode);
  return parts.map((part) => `/${part.toLowerCase()}`).join("");
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Letters and digits, one space between words: ignores markup and punctuation. */
const plain = (text: string): string =>
  text
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
