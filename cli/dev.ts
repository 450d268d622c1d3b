/**
 * @file `mgrpo dev`: one question, K rollouts, no training. Shows what the team did before any training, what a step would train on, and
 * what would keep it from learning.
 */
import colors from "picocolors";
import type { Arm, RunConfig } from "../core/contracts/config.ts";
import type { Question, QuestionSet } from "../core/contracts/question.ts";
import { MgrpoError } from "../core/errors.ts";
import { drawQuestions, initialCurriculum } from "../core/training/curriculum.ts";
import { chosenBy, resolveConfig } from "../core/training/resolve-config.ts";
import { openNamedRecipe } from "../recipes/registry.ts";
import { type TriedGroup, tryQuestion } from "./dev/rollouts.ts";
import { type AgentShare, agentShares } from "./dev/shares.ts";
import { groupWarnings } from "./dev/warnings.ts";
import { pinModels } from "./local/hub-models.ts";
import { makeMissingModels } from "./local/missing-models.ts";
import { preflight } from "./local/preflight.ts";
import { unlessStopped, watchForStop } from "./local/stop.ts";
import { readQuestions } from "./questions.ts";
import { drawText } from "./show/text.ts";
import { counted } from "./terminal/columns.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { didYouMean } from "./terminal/nearest.ts";
import { hanging } from "./terminal/rows.ts";

export interface DevOptions {
  readonly question?: string;
  readonly rollouts: number;
  readonly arm?: Arm;
  readonly seed: number;
  readonly set: readonly string[];
}

/**
 * Leaves out evaluation, budget and trackers, and what only they need, such as a suite's judge. An error that the app throws is shown:
 * it is not retried, and halts nothing.
 */
const DEV_SETTINGS = [
  "limits.attempts=1",
  "limits.lostFraction=1",
  "evaluation={}",
  "budget={}",
  "track=[]",
  "trackContent=false",
];

/** If scoring halts the run, as when the rewards throw, shows the rollouts so far, then rejects. */
export async function dev(recipeName: string, options: DevOptions): Promise<void> {
  refuseReplaced(options.set);
  const recipe = await openNamedRecipe(recipeName);
  const { arm = "mgrpo", seed, rollouts } = options;
  const settings = [...options.set, ...DEV_SETTINGS];
  const resolve = (...more: string[]) =>
    resolveConfig(recipe, { run: "dev", recipe: recipeName, seed, arm, set: [...settings, ...more] });
  const asked = resolve();
  const questions = await readQuestions(recipe, asked);
  const question = chooseQuestion(asked, questions, options.question);
  const stage = `curriculum=${JSON.stringify([{ fromStep: 0, levels: [question.level] }])}`;
  const oneGroup = ["steps=1", "questionsPerStep=1", `rolloutsPerQuestion=${rollouts}`, "dynamicSampling={}", stage];
  const config = await pinModels(resolve(...oneGroup));
  const site = { begins: () => true, checkStore: () => {} };
  await makeMissingModels(recipeName, recipe, config, site);
  const { findings, bases } = await preflight(config, { workers: "here", models: "read", ...site });
  findings.reportAndThrow();
  const stop = watchForStop();
  const isTerminal = process.stdout.isTTY;
  const onDone = (done: number) => {
    if (isTerminal) console.error(colors.dim(`rollout ${done} of ${rollouts}`));
  };
  const note = recipe.note?.(question);
  const trying = tryQuestion(config, bases, question, note, onDone, stop.signal);
  const tried = await unlessStopped(stop, trying).finally(() => stop.dispose());
  if (!tried) return;
  if (tried.halted !== undefined) {
    if (isTerminal) console.log(textOf(tried));
    else printLines(question, note, tried, [], []);
    throw new MgrpoError("run-halted", tried.halted);
  }
  const shares = agentShares(config, tried);
  const warnings = groupWarnings(config, tried, shares);
  if (isTerminal) print(config, tried, shares, warnings);
  else printLines(question, note, tried, shares, warnings);
}

/** Refuses a number of rollouts where it would change nothing. */
function refuseReplaced(set: readonly string[]): void {
  const wanted = chosenBy(set)("rolloutsPerQuestion");
  if (wanted === undefined) return;
  const message = `--set rolloutsPerQuestion=${wanted} changes nothing here: give the number of rollouts as --rollouts ${wanted}`;
  throw new MgrpoError("config-invalid", message);
}

/** The named question, or the one that training draws first. */
function chooseQuestion(config: RunConfig, { train, heldOut }: QuestionSet, id: string | undefined): Question {
  const all = [...train, ...heldOut];
  const wanted = id ?? drawQuestions(config, train, 0, initialCurriculum(config), 1).questions[0];
  const found = all.find((question) => question.id === wanted);
  if (found) return found;
  const ids = all.map((question) => question.id);
  const hint = didYouMean(wanted ?? "", ids) || `; the first are ${ids.slice(0, 3).join(", ")}`;
  throw new MgrpoError("not-found", `--question ${wanted}: the recipe has no such question${hint}`);
}

const textOf = ({ trees }: TriedGroup) => trees.map(drawText).join("\n\n");

function print(config: RunConfig, tried: TriedGroup, shares: readonly AgentShare[], warnings: readonly string[]): void {
  console.log(textOf(tried));
  console.log(colors.bold(`\nA step would train${config.runner === "native" ? "" : " (the app's rollouts)"}:`));
  for (const share of shares) {
    for (const line of hanging(`  ${share.agent.padEnd(widest(shares))}  `, shareText(share))) console.log(line);
  }
  if (warnings.length > 0) console.log("");
  for (const warning of warnings) {
    for (const line of warningLines(warning)) console.log(line);
  }
}

/** A warning for the terminal; each frame of a stack stays on its own line. */
export function warningLines(warning: string): string[] {
  const [first = "", ...frames] = warning.split("\n").map(stripControlCharacters);
  return [...hanging(colors.yellow("  warning: "), first), ...frames.map((frame) => colors.dim(`    ${frame}`))];
}

const widest = (shares: readonly AgentShare[]) => Math.max(...shares.map(({ agent }) => agent.length));

/** `2 branches, 312 sampled tokens; rewards 0.100 1.000; advantages -1.00 +1.00; 312 tokens trained`. */
export function shareText({
  trained,
  branches,
  sampledTokens,
  rewards,
  advantages,
  trainedTokens,
}: AgentShare): string {
  const count = branches === 1 ? "1 branch" : `${branches} branches`;
  const parts = [
    `${count}, ${counted(sampledTokens, "sampled token")}`,
    ...(rewards.length > 0 ? [`rewards ${rewards.map((reward) => reward.toFixed(3)).join(" ")}`] : []),
    ...(rewards.length > 0 ? [`advantages ${advantages.map(signed).join(" ")}`] : []),
    trained ? `${counted(trainedTokens, "token")} trained` : "frozen",
  ];
  return parts.join("; ");
}

const signed = (advantage: number | null) =>
  advantage === null ? "dropped" : `${advantage > 0 ? "+" : ""}${advantage.toFixed(2)}`;

function printLines(
  { id }: Question,
  note: string | undefined,
  { group, rollouts }: TriedGroup,
  shares: readonly AgentShare[],
  warnings: readonly string[],
): void {
  for (const [k, { outcome, invocations }] of rollouts.entries()) {
    const score = group.rollouts[k];
    const scored = score && !("excluded" in score) ? { correct: score.correct, reward: score.reward } : score;
    const end =
      outcome.status === "finished"
        ? { stop: outcome.conversation.stop, answer: outcome.conversation.answer, fault: outcome.conversation.fault }
        : { failed: outcome.reason };
    const counts = outcome.status === "finished" && outcome.app ? { counts: outcome.app.counts } : {};
    const line = { kind: "rollout", question: id, rollout: k, ...end, ...scored, ...counts };
    console.log(JSON.stringify({ ...line, invocations: invocations.size, ...(note !== undefined && { note }) }));
  }
  for (const share of shares) console.log(JSON.stringify({ kind: "agent", ...share }));
  for (const warning of warnings) console.log(JSON.stringify({ kind: "warning", warning }));
}
