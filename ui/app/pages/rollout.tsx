/**
 * @file One rollout: the whole team's tree, with tokens, and links to the previous and the next rollout of its group.
 * `?beside=<step>/<group>/<rollout>` shows a rollout of the same question in another step next to it.
 */
import { useLocation, useRoute } from "preact-iso";
import type { RolloutView } from "../../views.ts";
import { useKeys, usePulse, useView } from "../load.ts";
import { RunHeader } from "../parts/header.tsx";
import { Link } from "../parts/link.tsx";
import { noticeOf } from "../parts/notice.tsx";
import { TreeNode } from "../parts/tree.tsx";
import { stepRevisionOf } from "../run-loader.ts";
import { useSource } from "../source.ts";
import { QuestionPanel } from "./group.tsx";

/** Where a rollout is: `<step>/<group>/<rollout>`. */
interface RolloutPosition {
  readonly step: number;
  readonly group: number;
  readonly rollout: number;
}

const pathOf = ({ step, group, rollout }: RolloutPosition): string => `${step}/${group}/${rollout}`;

function parsePosition(text: string | undefined): RolloutPosition | undefined {
  const [, step, group, rollout] = /^(\d+)\/(\d+)\/(\d+)$/.exec(text ?? "") ?? [];
  if (step === undefined) return undefined;
  return { step: Number(step), group: Number(group), rollout: Number(rollout) };
}

export function RolloutPage() {
  const { params, query } = useRoute();
  const { run = "", step = "", group = "", rollout = "" } = params;
  const { route } = useLocation();
  const { href } = useSource();
  const position = { step: Number(step), group: Number(group), rollout: Number(rollout) };
  const beside = parsePosition(query["beside"]);
  const path = `/runs/${run}/steps`;
  const revision = stepRevisionOf(usePulse(run).view, position.step);
  const loaded = useView<RolloutView>(`/api${path}/${pathOf(position)}`, true, revision);
  const { view } = loaded;
  const address = (to: RolloutPosition, next: RolloutPosition | undefined) =>
    `${path}/${pathOf(to)}${next ? `?beside=${pathOf(next)}` : ""}`;
  const last = (view?.row.rollouts.length ?? 0) - 1;
  const go = (to: number) => {
    const next = address({ ...position, rollout: to }, beside);
    // An export may lack the group's other rollouts.
    if (to >= 0 && to <= last && href(next) !== undefined) route(next);
  };
  useKeys({ j: () => go(position.rollout + 1), k: () => go(position.rollout - 1) });
  const crumbs = [
    { text: `step ${step}`, href: `${path}/${step}` },
    { text: `group ${group}`, href: `${path}/${step}/${group}` },
    { text: `rollout ${rollout}` },
  ];
  return (
    <>
      <RunHeader run={run} crumbs={crumbs} />
      {noticeOf(loaded) ?? (
        <main class={beside ? "full" : ""}>
          {view && <QuestionPanel row={view.row} />}
          {view && <OtherSteps view={view} beside={beside} address={(next) => address(position, next)} />}
          <div class={beside ? "beside" : ""}>
            {view && (
              <RolloutTree
                hasKeys
                run={run}
                view={view}
                address={(to) => address({ ...position, rollout: to }, beside)}
              />
            )}
            {beside && (
              <Beside run={run} position={beside} address={(to) => address(position, { ...beside, rollout: to })} />
            )}
          </div>
        </main>
      )}
    </>
  );
}

interface BesideProps {
  readonly run: string;
  readonly position: RolloutPosition;
  readonly address: (rollout: number) => string;
}

/** The rollout that `?beside=` names. */
function Beside({ run, position, address }: BesideProps) {
  const loaded = useView<RolloutView>(`/api/runs/${run}/steps/${pathOf(position)}`, true);
  if (loaded.failure) return <p class="bad">{loaded.failure.message}</p>;
  if (!loaded.view) return <p class="faint">Loading …</p>;
  return <RolloutTree run={run} view={loaded.view} address={address} />;
}

interface RolloutTreeProps {
  readonly run: string;
  readonly view: RolloutView;
  /** The page's address with another rollout of the group in place of this one. */
  readonly address: (rollout: number) => string;
  /** Whether the keys `k` and `j` follow its links to the previous and the next rollout. */
  readonly hasKeys?: true;
}

function RolloutTree({ run, view: { step, row, rollout, tree }, address, hasKeys }: RolloutTreeProps) {
  const path = `/runs/${run}/steps/${step}/${row.group}/${rollout}`;
  return (
    <section aria-label={`step ${step}, rollout ${rollout}`}>
      <h2>
        Step {step}, rollout {rollout}
      </h2>
      <p class="bar">
        {rollout > 0 && (
          <Link hides to={address(rollout - 1)} {...(hasKeys && { title: "k" })}>
            ← rollout {rollout - 1}
          </Link>
        )}
        {rollout + 1 < row.rollouts.length && (
          <Link hides to={address(rollout + 1)} {...(hasKeys && { title: "j" })}>
            rollout {rollout + 1} →
          </Link>
        )}
      </p>
      <TreeNode
        key={path}
        tree={{ ...tree, body: undefined, note: undefined }}
        tokens={(trajectory) => `${path}/tokens?trajectory=${encodeURIComponent(trajectory)}`}
      />
    </section>
  );
}

interface OtherStepsProps {
  readonly view: RolloutView;
  readonly beside: RolloutPosition | undefined;
  /** The page's address with another rollout beside this one, or none. */
  readonly address: (beside: RolloutPosition | undefined) => string;
}

/** Lists the other steps that asked the same question. Choosing one shows its rollout of the same number beside this one. */
function OtherSteps({ view, beside, address }: OtherStepsProps) {
  const { route } = useLocation();
  if (view.sameQuestion.length === 0) return null;
  const chosen = beside ? `${beside.step}/${beside.group}` : "";
  const open = (value: string) => route(address(parsePosition(`${value}/${view.rollout}`)));
  return (
    <p class="bar">
      <select
        aria-label="the same question in another step"
        value={chosen}
        onChange={({ currentTarget }) => open(currentTarget.value)}
      >
        <option value="">compare with the same question in …</option>
        {view.sameQuestion.map(({ step, group }) => (
          <option key={step} value={`${step}/${group}`}>
            step {step}
          </option>
        ))}
      </select>
    </p>
  );
}
