/** @file `mgrpo ask`: a team, on this machine or behind APIs, answers the user's question, and every turn is shown. */
import colors from "picocolors";
import { type AnyTrajectory, sampledTokens } from "../core/contracts/rollout.ts";
import { MgrpoError } from "../core/errors.ts";
import { answer, questionOf } from "./ask/answer.ts";
import { type AskOptions, readTeam } from "./ask/config.ts";
import { asLines, asTree } from "./ask/narrate.ts";
import { unlessStopped, watchForStop } from "./local/stop.ts";
import { counted } from "./terminal/columns.ts";
import { stripControlCharacters } from "./terminal/control-characters.ts";
import { hanging } from "./terminal/rows.ts";

/** Rejects if the team ends without an answer. */
export async function ask(prompt: string, options: AskOptions): Promise<void> {
  if (prompt.trim() === "") throw new MgrpoError("config-invalid", "the question is empty: ask something");
  const team = await readTeam(options);
  const question = questionOf(team, prompt);
  const note = team.recipe.note?.(question);
  const stop = watchForStop();
  const isTerminal = process.stdout.isTTY;
  const narrate = (isTerminal ? asTree : asLines)((line) => console.log(line));
  if (isTerminal && note !== undefined) console.log(colors.dim(`note: ${stripControlCharacters(note)}`));
  const started = performance.now();
  const answering = answer(team, question, options, narrate, stop.signal);
  const answered = await unlessStopped(stop, answering).finally(() => stop.dispose());
  if (!answered) return;
  const { conversation, trajectories } = answered;
  const seconds = Math.round((performance.now() - started) / 100) / 10;
  const tokens = tokensOf(trajectories);
  if (isTerminal) {
    const agents = Object.entries(tokens).map(([agent, { asked, sampled, read }]) => {
      const prompts = read > 0 ? `, ${read} prompt tokens` : "";
      return `${agent}: ${counted(asked, "conversation")}, ${sampled} sampled tokens${prompts}`;
    });
    for (const line of hanging("  ", [`${seconds} s`, ...agents].join("; "))) console.log(colors.dim(line));
  } else {
    const { stop: end, answer: text, fault } = conversation;
    const result = { kind: "result", stop: end, answer: text, fault, seconds, tokens };
    console.log(JSON.stringify({ ...result, ...(note !== undefined && { note }) }));
  }
  if (conversation.answer !== null) return;
  throw new MgrpoError("not-found", `the team gave no answer: ${conversation.fault ?? conversation.stop}`);
}

interface Count {
  /** Conversations. */
  readonly asked: number;
  readonly sampled: number;
  /** Prompt tokens that an API charges for. */
  readonly read: number;
}

function tokensOf(trajectories: readonly AnyTrajectory[]): Record<string, Count> {
  const counts: Record<string, Count> = {};
  for (const trajectory of trajectories) {
    const { asked, sampled, read } = counts[trajectory.agent] ?? { asked: 0, sampled: 0, read: 0 };
    counts[trajectory.agent] = {
      asked: asked + 1,
      sampled: sampled + sampledTokens(trajectory),
      read: read + ("usage" in trajectory ? trajectory.usage.inputTokens : 0),
    };
  }
  return counts;
}
