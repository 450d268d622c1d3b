/** @file The part of dynalite that is used. It brings no types. */
declare module "dynalite" {
  import type { Server } from "node:http";
  /** A server that has one `request` listener; `close` closes its LevelDB too. */
  // biome-ignore lint/style/noDefaultExport: it is what the package exports
  export default function dynalite(options: { path: string; createTableMs: number }): Server;
}
