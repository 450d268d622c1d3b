/** @file `mgrpo cloud` and its commands. */
import { type Command, Option } from "commander";
import { integer } from "../terminal/fail.ts";

/** Those of the store itself. */
export function addCloud(program: Command): void {
  const cloud = program
    .command("cloud")
    .description("the store of runs on several machines: serve, setup, check, destroy");

  cloud
    .command("serve")
    .description("keep the embedded cloud alive for workers on other machines; prints the environment they need")
    .option("--host <address>", "address to listen on, the one that the other machines reach", "127.0.0.1")
    .addOption(
      new Option("--port <n>", "port of the DynamoDB API; 0 takes a free one")
        .argParser(integer("--port"))
        .default(7420),
    )
    .addOption(
      new Option("--s3-port <n>", "port of the S3 API; by default the next one").argParser(integer("--s3-port")),
    )
    .option("--dir <folder>", "where it keeps everything, its keys included", "mgrpo-cloud")
    .action(async (options) => (await import("./serve.ts")).serve(options));

  cloud
    .command("setup")
    .description("make the table and the bucket that the environment names, at the endpoints that it names")
    .action(async () => (await import("./setup.ts")).setup());

  cloud
    .command("check")
    .description("try everything that a run relies on the store for; exit code 1 when something does not work")
    .action(async () => (await import("./check.ts")).check());

  cloud
    .command("destroy")
    .description("delete the table and the bucket, with every run in them")
    .option("--yes <table>", "the table's name, repeated")
    .action(async (options) => (await import("./destroy.ts")).destroy(options));
}
