/** @file Where mgrpo runs on AWS: `sst deploy` makes the store and the functions. See CONTRIBUTING for checking it offline. */
/// <reference path="./.sst/platform/config.d.ts" />

export default $config({
  app(input) {
    const production = input?.stage === "production";
    return {
      name: "mgrpo",
      home: "aws",
      removal: production ? "retain" : "remove",
      protect: production,
      providers: { aws: { version: "7.30.0" } },
    };
  },
  async run() {
    const { createStorage } = await import("./stacks/storage.ts");
    const { createFunctions } = await import("./stacks/functions.ts");
    const storage = createStorage();
    const functions = createFunctions(storage);
    return { table: storage.table.name, bucket: storage.bucket.name, startRun: functions.startRun.name };
  },
});
