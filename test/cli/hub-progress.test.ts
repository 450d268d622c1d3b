/** @file The progress of a download from the hub: one live line on a terminal, a line per file elsewhere. */
import { expect, test } from "vitest";
import { terminalReporter } from "../../cli/local/hub-models.ts";

/** A reporter, and what it writes. */
function reporterTo(isTTY: boolean, columns = 80) {
  const written: string[] = [];
  const stream = { isTTY, columns, write: (text: string) => written.push(text) > 0 } as unknown as NodeJS.WriteStream;
  return { reporter: terminalReporter(stream), text: () => written.join("") };
}

const at = (file: string, bytes: number, totalBytes: number) => ({ model: "hf:owner/tiny", file, bytes, totalBytes });
const shown = (progress: string) => `\r\u001B[Khf:owner/tiny  ${progress}`;

test("closing the reporter ends its live line once, so that a failure is printed on a line of its own", () => {
  const { reporter, text } = reporterTo(true);
  reporter.progress(at("model.safetensors", 1e6, 3e6));
  reporter.close();
  reporter.close();
  expect(text()).toBe(`${shown("1.0 of 3.0 MB  model.safetensors")}\n`);
});

test("the small files and the weights share one live line", () => {
  const { reporter, text } = reporterTo(true);
  reporter.progress(at("config.json", 1e6, 1e6));
  reporter.progress(at("model.safetensors", 3e6, 3e6));
  reporter.close();
  const lines = ["1.0 of 1.0 MB  config.json", "3.0 of 3.0 MB  model.safetensors"].map(shown);
  expect(text()).toBe(`${lines.join("")}\n`);
});

test("without a terminal, a line is printed when a file starts, and nothing on closing", () => {
  const { reporter, text } = reporterTo(false);
  for (const bytes of [1e6, 2e6]) reporter.progress(at("model.safetensors", bytes, 3e6));
  reporter.close();
  expect(text()).toBe("hf:owner/tiny  1.0 of 3.0 MB  model.safetensors\n");
});

test("a live line is shorter than the terminal is wide: a wrapped one would leave its first row behind at each update", () => {
  const { reporter, text } = reporterTo(true, 30);
  reporter.progress(at("model-00001-of-00004.safetensors", 1e6, 1e6));
  expect(text()).toBe("\r\u001B[Khf:owner/tiny  1.0 of 1.0 MB…");
});

test.each([true, false])("the name of a file, and a note, are shown as plain text (terminal: %s)", (isTTY) => {
  const { reporter, text } = reporterTo(isTTY);
  reporter.progress(at("\u001b]0;owned\u0007.json", 1e6, 1e6));
  reporter.note("hub said \u001b[2J");
  expect(text()).toContain("1.0 of 1.0 MB   ]0;owned .json");
  expect(text()).toContain("hub said  [2J\n");
});
