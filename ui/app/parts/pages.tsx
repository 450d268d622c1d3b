/** @file The buttons that lead to the previous and the next page of a list. */

interface PagesProps {
  readonly page: number;
  readonly pages: number;
  readonly turn: (page: number) => void;
}

export function Pages({ page, pages, turn }: PagesProps) {
  if (pages <= 1) return null;
  return (
    <nav class="bar" aria-label="pages">
      <button type="button" disabled={page === 0} onClick={() => turn(page - 1)}>
        ← previous
      </button>
      <span>
        page {page + 1} of {pages}
      </span>
      <button type="button" disabled={page + 1 >= pages} onClick={() => turn(page + 1)}>
        next →
      </button>
    </nav>
  );
}
