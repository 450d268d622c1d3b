/** @file The views of an exported page. The pages of a step and the rollouts of a group are derived from the views that it holds. */
import type { Export } from "../export-view.ts";
import { groupOrder, inOrder, pageCount, rowsOfPage } from "../group-order.ts";
import type { GroupView, RolloutView, StepView } from "../views.ts";
import type { ViewSource } from "./source.ts";

const STEP = /^\/api\/runs\/[^/]+\/steps\/\d+$/;
const ROLLOUT = /^(\/api\/runs\/[^/]+\/steps\/\d+\/\d+)\/(\d+)$/;

export function exportedSource({ views: held, about }: Export): ViewSource {
  // A view's path says its type (cli/ui/export.ts writes both). It is not parsed again: schemas would make the page larger.
  const views: Readonly<Record<string, unknown>> = held;
  const find = (path: string): unknown => {
    const [address = "", query] = path.split("?");
    const view = views[path] ?? views[address];
    if (STEP.test(address) && view) return stepPage(view as StepView, new URLSearchParams(query));
    const [, group = "", rollout] = ROLLOUT.exec(address) ?? [];
    return view ?? rolloutOf(views[group] as GroupView | undefined, Number(rollout));
  };
  return {
    async load<View>(path: string) {
      const view = find(path);
      if (view !== undefined) return { view: view as View };
      return { failure: { code: "not-found", message: "this page does not hold that view: `mgrpo ui` shows it" } };
    },
    href: (page) => (find(`/api${page}`) === undefined ? undefined : `#${page}`),
    about,
  };
}

function stepPage(view: StepView, query: URLSearchParams): StepView {
  const page = Number(query.get("page") ?? 0);
  const groups = rowsOfPage(inOrder(view.groups, groupOrder(query.get("sort") ?? undefined)), page);
  return { ...view, groups: [...groups], page, pages: pageCount(view.groups.length) };
}

function rolloutOf(group: GroupView | undefined, rollout: number): RolloutView | undefined {
  const tree = group?.trees[rollout];
  return (
    group && tree && { step: group.step, row: group.row, rollout, tree: { ...tree, folded: false }, sameQuestion: [] }
  );
}
