/** @file Text at the bottom of the terminal that is rewritten in place. */
import { createLogUpdate } from "log-update";
import { terminalWidth } from "./flow.ts";

export type LiveText = ReturnType<typeof createLogUpdate>;

/** On a terminal that reports no width (0), log-update alone would wrap the text after every character. */
export function openLiveText(output: NodeJS.WriteStream): LiveText {
  const sized = new Proxy(output, {
    get(target, key) {
      if (key === "columns") return terminalWidth(target);
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return createLogUpdate(sized);
}
