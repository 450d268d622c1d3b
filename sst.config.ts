/** @file mgrpo on AWS: `sst deploy` creates everything that stacks/ describes, as docs/deploy.md explains. */
/// <reference path="./.sst/platform/config.d.ts" />

export default $config({
  app(input) {
    const keep = input?.stage === "prod";
    return {
      name: "mgrpo",
      home: "aws",
      removal: keep ? "retain" : "remove",
      protect: keep,
      providers: { aws: { version: "7.30.0" } },
    };
  },
  async run() {
    const { readSettings } = await import("./stacks/settings.ts");
    const { createStorage } = await import("./stacks/storage.ts");
    const { createSchedule } = await import("./stacks/schedule.ts");
    const { createFunctions } = await import("./stacks/functions.ts");
    const { createAlarms } = await import("./stacks/alarms.ts");
    const { createWorkers } = await import("./stacks/workers.ts");
    const { describeDeployment } = await import("./stacks/deployment.ts");
    const { createJudgeKey } = await import("./stacks/secrets.ts");
    const settings = readSettings($app, process.env);
    const storage = createStorage(settings);
    const judge = createJudgeKey();
    /**
     * One fleet per agent and set of roles, all empty until a run needs them. A run names its agents in its config, which does not exist at
     * deployment, so the fleets here serve the agents that most recipes have. Add a line for a recipe with other agents; a fleet that no run
     * uses costs nothing. Rollouts and training share a fleet, because an instance that samples can also train: one instance holds the
     * agent's trainer claim, usually the on-demand one, which starts first; the spot instances only sample.
     */
    const gpu = { gpu: true, instanceTypes: ["g6.xlarge", "g5.xlarge", "g4dn.xlarge"] };
    const wanted = [
      { name: "main", agent: "main", roles: "rollout,train", ...gpu, max: 4, onDemand: 1 },
      { name: "searcher", agent: "searcher", roles: "rollout,train", ...gpu, max: 4, onDemand: 1 },
      { name: "eval", agent: "*", roles: "eval", ...gpu, max: 2, onDemand: 0 },
    ];
    const fleets = await createWorkers(storage, settings, wanted, judge);
    const schedule = createSchedule();
    const functions = createFunctions(storage, settings, schedule, fleets, judge);
    createAlarms(functions, settings);
    describeDeployment(storage, schedule, fleets, functions);
    return {
      table: storage.table.name,
      bucket: storage.bucket.name,
      startRun: functions.startRun.fn.name,
      ...Object.fromEntries(fleets.map(({ name, group }) => [`${name}Fleet`, group.name])),
    };
  },
});
