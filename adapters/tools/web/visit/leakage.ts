/**
 * @file The leakage guard: what would answer a benchmark instead of the agent. Pages of the known benchmarks, those that the settings name,
 * and any page that holds the question itself, word for word. All are kept from the agent, and counted.
 */

/** Where the benchmarks of docs/benchmarks lie, with questions and answers. Hosts with their subdomains; paths with what is below them. */
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

/** A question shorter than this may stand on a page that does not know of it. Characters, after `plain`. */
const SHORTEST_TELLING = 60;

export interface LeakageGuard {
  /** Whether this address is one of theirs. */
  isBlocked(url: URL): boolean;
  /** Whether the text holds the question. */
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
      return asked.length >= SHORTEST_TELLING && plain(text).includes(asked);
    },
  };
}

/** Case and escapes do not tell paths apart here, nor do doubled or trailing slashes. */
function pathOf(path: string): string {
  const parts = path.split("/").filter(Boolean).map(decoded);
  return parts.map((part) => `/${part.toLowerCase()}`).join("");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Letters and digits, one space between words: markup and punctuation do not tell texts apart. */
const plain = (text: string): string =>
  text
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
