/**
 * @file Shows the progress of a comparison. On a terminal: a live line per active run, and a line for each run that is kept or has ended.
 * Elsewhere: a line of JSON when a run is kept, starts or ends; its steps are not shown.
 */
import colors from "picocolors";
import * as z from "zod";
import { jsonOrUndefined } from "../../core/contracts/parse.ts";
import { duration, percent } from "../terminal/columns.ts";
import { stripControlCharacters } from "../terminal/control-characters.ts";
import { openLiveText } from "../terminal/live-text.ts";
import { hanging, row } from "../terminal/rows.ts";

export interface ComparisonDisplay {
  /** The run was already finished. */
  kept(run: string): void;
  started(run: string): void;
  /** The run's process printed this line of JSON. */
  line(run: string, line: string): void;
  /** `fault`: why the run did not finish. */
  ended(run: string, fault: string | undefined): void;
  /** Ends the live lines. */
  close(): void;
  /** Prints a line after `close`. */
  print(text: string): void;
}

/** A run's output lines that report its progress. */
const StepLine = z.object({ kind: z.literal("step"), step: z.int(), correct: z.number() });

interface ActiveRun {
  readonly since: number;
  text: string;
}

/** `total`: number of runs. */
export function openProgress(total: number, output: NodeJS.WriteStream = process.stdout): ComparisonDisplay {
  return output.isTTY ? liveLines(total, output) : jsonLines(output);
}

function jsonLines(output: NodeJS.WritableStream): ComparisonDisplay {
  const print = (value: object) => output.write(`${JSON.stringify(value)}\n`);
  return {
    kept: (run) => print({ kind: "kept", run }),
    started: (run) => print({ kind: "started", run }),
    line() {},
    ended: (run, fault) => print(fault === undefined ? { kind: "finished", run } : { kind: "unfinished", run, fault }),
    close() {},
    print: (text) => print({ kind: "note", text }),
  };
}

function liveLines(total: number, output: NodeJS.WriteStream): ComparisonDisplay {
  const live = openLiveText(output);
  const running = new Map<string, ActiveRun>();
  let finished = 0;
  const draw = () =>
    live(
      ["", ...[...running].map(([run, { text }]) => row(`${colors.cyan("●")} ${run}`, colors.dim(text)))]
        .concat(`  ${finished} of ${total} runs`)
        .join("\n"),
    );
  const above = (line: string) => {
    live.clear();
    output.write(`${line}\n`);
    draw();
  };
  return {
    kept(run) {
      finished += 1;
      above(`  ${colors.dim(`✔ ${run}`)}`);
    },
    started(run) {
      running.set(run, { since: performance.now(), text: "starting" });
      draw();
    },
    line(run, line) {
      const step = StepLine.safeParse(jsonOrUndefined(line)).data;
      const at = running.get(run);
      if (!step || !at) return;
      at.text = `step ${step.step + 1}, ${percent(step.correct)} correct, ${duration((performance.now() - at.since) / 1000)}`;
      draw();
    },
    ended(run, fault) {
      const took = duration((performance.now() - (running.get(run)?.since ?? 0)) / 1000);
      running.delete(run);
      if (fault === undefined) finished += 1;
      above(
        fault === undefined
          ? `  ${colors.green("✔")} ${run}  ${colors.dim(took)}`
          : hanging(`  ${colors.red("✘")} ${run}  `, stripControlCharacters(fault), "    ").join("\n"),
      );
    },
    close() {
      live.clear();
      live.done();
    },
    print: (text) => output.write(`\n  ${text}\n`),
  };
}
