/** @file `mgrpo cloud`: the store of runs on several machines. */
import { type Command, Option } from "commander";
import { path, port } from "../terminal/fail.ts";

export function addCloud(program: Command): void {
  const cloud = program
    .command("cloud")
    .description("serve, create, check or delete the store of runs on several machines");
  addServe(cloud);
  cloud
    .command("setup")
    .description("create the table and the bucket that MGRPO_TABLE and MGRPO_BUCKET name, unless they exist")
    .action(async () => (await import("../cloud/setup.ts")).setup());
  cloud
    .command("check")
    .description("test everything that a run needs from its store; exit code 1 if something does not work")
    .action(async () => (await import("../cloud/check.ts")).check());
  cloud
    .command("destroy")
    .description("delete the table and the bucket that MGRPO_TABLE and MGRPO_BUCKET name, with every run in them")
    .option("--yes <table>", "confirm by repeating the table's name")
    .action(async (options) => (await import("../cloud/destroy.ts")).destroy(options));
}

function addServe(cloud: Command): void {
  cloud
    .command("serve")
    .description(
      "serve a store for workers on other machines, and run the functions that plan steps and score rollouts, until stopped",
    )
    .option("--host <address>", "address to listen on, which the other machines must reach", "127.0.0.1")
    .addOption(
      new Option("--port <n>", "port of the DynamoDB API; 0 takes a free one").argParser(port("--port")).default(7420),
    )
    .addOption(
      new Option(
        "--s3-port <n>",
        "port of the S3 API; by default the one after --port, or a free one with --port 0",
      ).argParser(port("--s3-port")),
    )
    .addOption(
      new Option("--dir <folder>", "folder of the store and its keys").argParser(path("--dir")).default("mgrpo-cloud"),
    )
    // Not --env-file: Node.js 20 consumes that option itself, wherever it appears.
    .option(
      "--environment-file <file>",
      "write the workers' environment to this file, readable only by its owner, instead of printing it",
    )
    .addOption(
      new Option(
        "--ui-port <n>",
        "also serve the dashboard on this port; 0 takes a free one. Its link, which has a key, is printed to standard error",
      ).argParser(port("--ui-port")),
    )
    .action(async (options) => (await import("../cloud/serve.ts")).serveCloud(options));
}
