/** @file `mgrpo show`: a run's steps, or the tree of a step, a group or a rollout, on the terminal or as a page. */
import { relative } from "node:path";
import { writeAtomically } from "./local/run-folder.ts";
import { type Address, loadTrees, parseAddress } from "./show/load.ts";
import { drawPage } from "./show/page.ts";
import { openSource, type Source } from "./show/source.ts";
import { drawText } from "./show/text.ts";
import { openDisplay } from "./terminal/display.ts";

export interface ShowOptions {
  /** True: a file in the run's folder. */
  readonly html?: string | true;
}

export async function show(run: string, address: string | undefined, { html }: ShowOptions): Promise<void> {
  const source = await openSource(run);
  const { config } = source;
  if (address === undefined && html === undefined) return showSteps(source);
  const wanted = address === undefined ? { step: Math.max(0, source.step - 1) } : parseAddress(address);
  const trees = await source.read((store) => loadTrees(store, config, wanted));
  if (html === undefined) {
    console.log(trees.map(drawText).join("\n\n"));
    return;
  }
  const name = Object.values(wanted).join("-");
  const file = html === true ? `${source.folder}/show-${name}.html` : html;
  const title = `${config.run}, ${titleOf(wanted)}`;
  const subtitle = `${config.arm}, seed ${config.seed}. Advantages and weights are what the trainer used.`;
  writeAtomically(file, await drawPage(title, subtitle, trees));
  console.log(relative(process.cwd(), file));
}

function titleOf({ step, group, rollout }: Address): string {
  return [
    `step ${step}`,
    group === undefined ? "" : `group ${group}`,
    rollout === undefined ? "" : `rollout ${rollout}`,
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** As the live table told it: each step, and the evaluations of the team that it left. */
async function showSteps({ config, state, step, reason, evaluations, summaries }: Source): Promise<void> {
  const display = openDisplay(config);
  const tell = (team: number) => {
    for (const evaluation of evaluations)
      if (evaluation.team === team) display.event({ kind: "evaluation", evaluation });
  };
  tell(0);
  for (const summary of await summaries()) {
    display.event({ kind: "step", summary });
    tell(summary.step + 1);
  }
  display.close();
  if (process.stdout.isTTY) console.log(`\n  ${config.run}: ${state} at step ${step} of ${config.steps} ${reason}`);
}
