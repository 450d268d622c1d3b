/** @file The order in which the groups of a step are shown, and their pages. Pure. */
import type { GroupRow } from "./views.ts";

/** `worst`: lowest minimum reward first, then lowest mean. `best`: highest mean first. In both, groups without a reward come last. */
export const GROUP_ORDERS = ["group", "worst", "best"] as const;
export type GroupOrder = (typeof GROUP_ORDERS)[number];

export const groupOrder = (text: string | undefined): GroupOrder =>
  GROUP_ORDERS.find((order) => order === text) ?? "group";

export const GROUPS_PER_PAGE = 48;

const rewardsOf = ({ rollouts }: GroupRow): number[] => rollouts.flatMap(({ reward }) => reward ?? []);
const meanOf = (row: GroupRow): number => {
  const rewards = rewardsOf(row);
  return rewards.length === 0 ? -Number.MAX_VALUE : rewards.reduce((sum, one) => sum + one, 0) / rewards.length;
};
const worstOf = (row: GroupRow): number =>
  rewardsOf(row).reduce((least, one) => Math.min(least, one), Number.MAX_VALUE);

export function inOrder(groups: readonly GroupRow[], order: GroupOrder): readonly GroupRow[] {
  if (order === "worst") return groups.toSorted((a, b) => worstOf(a) - worstOf(b) || meanOf(a) - meanOf(b));
  return order === "best" ? groups.toSorted((a, b) => meanOf(b) - meanOf(a)) : groups;
}

export const rowsOfPage = <Row>(rows: readonly Row[], page: number): readonly Row[] =>
  rows.slice(page * GROUPS_PER_PAGE, (page + 1) * GROUPS_PER_PAGE);

export const pageCount = (groups: number): number => Math.max(1, Math.ceil(groups / GROUPS_PER_PAGE));
