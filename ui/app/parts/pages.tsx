/** @file The way to the page before and after, of a list that has several. */

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
        ← before
      </button>
      <span>
        page {page + 1} of {pages}
      </span>
      <button type="button" disabled={page + 1 >= pages} onClick={() => turn(page + 1)}>
        more →
      </button>
    </nav>
  );
}
