/** @file The command line of an example: `[steps]`, a whole number above 0. */
import { existsSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

const STEPS = 40;

/**
 * Calls `train` if Node.js was started with the caller's module. If the argument is not a number of steps, prints an error instead and sets the
 * exit code to 1. `module`: the caller's `import.meta.url`.
 */
export async function runIfMain(module: string, train: (steps: number) => Promise<unknown>): Promise<void> {
  const [, started = "", text = String(STEPS)] = process.argv;
  // The module's URL has no symbolic links; the path that Node.js was started with may have some.
  if (!existsSync(started) || realpathSync(started) !== fileURLToPath(module)) return;
  if (/^[1-9]\d*$/.test(text)) return void (await train(Number(text)));
  console.error(`'${text}' is not a number of steps: give a whole number above 0, such as ${STEPS}`);
  process.exitCode = 1;
}
