/** @file Search: BM25 over a small corpus, with MiniSearch. It matches words, and whole names between separators. */
import MiniSearch from "minisearch";

export interface SearchIndex {
  /**
   * Titles, best first. A query of several terms ("Iraq, Syria") looks for what connects them: pages whose title is one of its
   * terms are excluded.
   */
  titles(query: string, count: number): string[];
}

/** A match in the title counts more than one in the text. */
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
      const terms = phrases(query);
      const excluded = new Set(terms.length > 1 ? terms : []);
      const hits = index.search(query, { filter: ({ id }) => !excluded.has(String(id).toLowerCase()) });
      return hits.slice(0, count).map(({ id }) => String(id));
    },
  };
}

/** Words, and phrases marked with `=` so that "Guinea" does not match "Equatorial Guinea". */
function analyze(text: string): string[] {
  const parts = phrases(text);
  return parts.flatMap((phrase) => [`=${phrase}`, ...phrase.split(/[^\p{L}\p{N}'’-]+/u).filter(Boolean)]);
}

const phrases = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/[\n,:[\]]+/)
    .map((part) => part.trim())
    .filter(Boolean);
