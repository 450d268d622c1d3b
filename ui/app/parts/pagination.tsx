/** @file The buttons that lead to the previous and the next page of a list. */

interface PaginationProps {
  readonly page: number;
  readonly pages: number;
  readonly onPageChange: (page: number) => void;
}

export function Pagination({ page, pages, onPageChange }: PaginationProps) {
  if (pages <= 1) return null;
  return (
    <nav class="bar" aria-label="pages">
      <button type="button" disabled={page === 0} onClick={() => onPageChange(page - 1)}>
        ← previous
      </button>
      <span>
        page {page + 1} of {pages}
      </span>
      <button type="button" disabled={page + 1 >= pages} onClick={() => onPageChange(page + 1)}>
        next →
      </button>
    </nav>
  );
}
