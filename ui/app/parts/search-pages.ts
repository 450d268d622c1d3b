/** @file The pages of a step's search: `from` in a query is the group at which its page begins, 0 if absent. */

/** The query of the page that begins at this group. */
export function pageAt(query: URLSearchParams, from: number): URLSearchParams {
  const page = new URLSearchParams(query);
  page.set("from", String(from));
  return page;
}

/** Which groups a page of hits covers; empty if it covers them all. `next`: where the next page begins, null if this page is the last. */
export function searchedGroups(query: URLSearchParams, next: number | null): string {
  const from = Number(query.get("from") ?? 0);
  if (next !== null) return `groups ${from} to ${next - 1}: `;
  return from > 0 ? `from group ${from} on: ` : "";
}
