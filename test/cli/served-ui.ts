/** @file Starts a command that serves the dashboard, and reads views through its link as a browser does. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const ROOT = resolve(import.meta.dirname, "../..");

export interface ServedUi {
  readonly link: string;
  /** A view of the API, with the cookie that the link gives. */
  view(path: string): Promise<unknown>;
  close(): Promise<void>;
}

/**
 * @param pattern matches a line that the command prints; the first group is the link.
 * @param root where the program is installed.
 */
export async function serveUi(cwd: string, args: readonly string[], pattern: RegExp, root = ROOT): Promise<ServedUi> {
  const child = spawn(process.execPath, [join(root, "dist/cli/mgrpo.js"), ...args], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "exit");
  const link = await new Promise<string>((found, failed) => {
    const printed: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      createInterface(stream).on("line", (line) => {
        printed.push(line);
        const [, link] = pattern.exec(line) ?? [];
        if (link !== undefined) found(link);
      });
    void ended.then(() => failed(new Error(`the command ended: ${printed.join("\n")}`)));
  });
  const { headers } = await fetch(link, { redirect: "manual" });
  const [cookie = ""] = (headers.get("set-cookie") ?? "").split(";");
  return {
    link,
    view: async (path) => (await fetch(new URL(`/api${path}`, link), { headers: { cookie } })).json(),
    async close() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
