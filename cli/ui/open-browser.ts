/** @file Opens a link in the user's browser, with the command that the system has for it. */
import { spawn } from "node:child_process";
import { platform } from "node:os";

const COMMANDS: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", ""],
};

/** A system without such a command shows nothing: the link is printed anyway. */
export function openBrowser(link: string): void {
  const [command = "xdg-open", ...args] = COMMANDS[platform()] ?? [];
  const child = spawn(command, [...args, link], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}
