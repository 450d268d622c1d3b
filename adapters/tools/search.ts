/** @file Full-text search over a small corpus: BM25 with MiniSearch, over words and whole phrases (the text between separators). */
import MiniSearch from "minisearch";

/** Pages ranked by BM25 over words and whole phrases, ignoring case; a match in a title counts more than one in the text. */
export interface SearchIndex {
  /**
   * Titles, best first. A query of several phrases ("Iraq, Syria") looks for what connects them: pages whose title is one of
   * the phrases are excluded.
   */
  titles(query: string, count: number): string[];
}

/** Weight of a match in the title; a match in the text has weight 1. */
const TITLE_BOOST = 3;

/** Indexes pages, title -> text. */
export function openSearchIndex(pages: ReadonlyMap<string, string>): SearchIndex {
  const index = new MiniSearch<{ id: string; title: string; text: string }>({
    fields: ["title", "text"],
    tokenize: analyze,
    processTerm: (term) => term,
    searchOptions: { boost: { title: TITLE_BOOST } },
  });
  index.addAll([...pages].map(([id, text]) => ({ id, title: id, text })));
  return {
    titles(query, count) {
      const named = phrases(query);
      const excluded = new Set(named.length > 1 ? named : []);
      const hits = index.search(query, { filter: ({ id }) => !excluded.has(folded(String(id))) });
      return hits.slice(0, count).map(({ id }) => String(id));
    },
  };
}

/** Words, and phrases marked with `=`, which rank the page "Guinea" above "Equatorial Guinea" for the query "Guinea". */
function analyze(text: string): string[] {
  return phrases(text).flatMap((phrase) => [`=${phrase}`, ...phrase.split(/[^\p{L}\p{M}\p{N}'’-]+/u).filter(Boolean)]);
}

const phrases = (text: string): string[] =>
  folded(text)
    .split(/[\n,:[\]]+/)
    .map((part) => part.trim())
    .filter(Boolean);

/** Lowercase, in Unicode NFC: an accented letter compares equal however it is encoded. */
const folded = (text: string): string => text.normalize("NFC").toLowerCase();
