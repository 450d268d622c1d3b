/** @file A line at the bottom of the terminal that shows what a long command is doing. Without a terminal, only printed lines appear. */
import colors from "picocolors";
import { terminalWidth } from "./flow.ts";
import { openLiveText } from "./live-text.ts";

const REDRAW_MILLISECONDS = 1000;

export interface LiveLine {
  /** Sets the text, which is recomputed every second. */
  show(text: () => string): void;
  /** Prints a line above the live one. */
  print(line: string): void;
  close(): void;
}

export function openLiveLine(output: NodeJS.WriteStream): LiveLine {
  if (!output.isTTY) return { show() {}, print: (line) => void output.write(`${line}\n`), close() {} };
  const live = openLiveText(output);
  let current = () => "";
  const draw = () => live(colors.dim(`  ${current()}`.slice(0, terminalWidth(output))));
  const timer = setInterval(draw, REDRAW_MILLISECONDS);
  timer.unref();
  return {
    show(text) {
      current = text;
      draw();
    },
    print(line) {
      live.clear();
      output.write(`${line}\n`);
      draw();
    },
    close() {
      clearInterval(timer);
      live.clear();
      live.done();
    },
  };
}
