/** @file One simulation: starts all runs together and lets them work until the measurement window ends. */
import type { RunConfig } from "../../core/contracts/config.ts";
import { objectKeys } from "../../core/contracts/keys.ts";
import { stream } from "../../core/random.ts";
import { trainedAgents } from "../../core/training/step-plan.ts";
import { createLog } from "../../gpu-workers/log.ts";
import { MIN_TRAINING_SHARE } from "./assumptions.ts";
import { openMemoryBucket } from "./cloud/bucket.ts";
import { openMemoryTable } from "./cloud/dynamo.ts";
import { openSimulatedFunctions } from "./cloud/functions.ts";
import { type Cloud, openSimulatedStore, pause } from "./cloud/store.ts";
import { Meter } from "./meter.ts";
import type { SimulationPlan } from "./plan.ts";
import { openTeamEngine, prepareTeam, simulatedRewards } from "./team.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { runWorkers } from "./workers.ts";

export interface MeasurementWindow {
  readonly meter: Meter;
  readonly seconds: number;
  readonly rollouts: number;
  /** Growth of the table in bytes. */
  readonly tableBytes: number;
}

/** `log` receives the log lines of functions and workers. */
export function simulate(
  plan: SimulationPlan,
  time: VirtualTime,
  log: (line: string) => void,
): Promise<MeasurementWindow> {
  const { configs, warmUp, measured } = plan;
  const resolvers = new Map<string, (moment: Moment) => void>();
  /** Resolves once every run has stored this team, with the moment at which the last one did. */
  const teamsAt = async (team: number) => {
    const stored = configs.map(
      ({ run }) => new Promise<Moment>((resolve) => resolvers.set(objectKeys.team(run, team), resolve)),
    );
    return (await Promise.all(stored)).reduce((last, moment) => (moment.seconds > last.seconds ? moment : last));
  };
  const meter = new Meter(() => time.now());
  const table = openMemoryTable();
  const bucket = openMemoryBucket((key) => {
    functions.objectCreated(key);
    resolvers.get(key)?.({ seconds: time.now(), tableBytes: table.bytes() });
  });
  const cloud: Cloud = { table, bucket, meter, random: stream("simulated cloud") };
  const functions = openSimulatedFunctions(() => cloud, simulatedRewards, log);

  async function run(): Promise<MeasurementWindow> {
    const [begins, ends] = [teamsAt(warmUp), teamsAt(warmUp + measured)];
    const { objects } = openSimulatedStore(cloud, { name: "launch" });
    for (const config of configs) await functions.invoke("start-run", await prepareTeam(objects, config));
    functions.startSchedule();
    const working = Promise.all(
      configs.map((config) =>
        runWorkers(config, plan.workers, cloud, openTeamEngine(config, pacer(config, plan, time)), createLog(log)),
      ),
    );
    const failed = working.then(() => new Promise<never>(() => {}));
    const first = await Promise.race([begins, failed]);
    meter.restart();
    const last = await Promise.race([ends, failed]);
    return {
      meter,
      seconds: last.seconds - first.seconds,
      rollouts: configs.length * measured * plan.rolloutsPerStep,
      tableBytes: last.tableBytes - first.tableBytes,
    };
  }
  return time.run(run());
}

interface Moment {
  readonly seconds: number;
  readonly tableBytes: number;
}

/** The pace of one run: training fills the rest of the step, so that the run keeps its rate, but takes at least its minimum share. */
function pacer(config: RunConfig, { stepSeconds }: SimulationPlan, time: VirtualTime): () => Promise<void> {
  const trainers = trainedAgents(config).length;
  const origin = time.now();
  let done = 0;
  return () => {
    const step = Math.floor(done++ / trainers);
    const end = origin + (step + 1) * stepSeconds;
    return pause(Math.max(end - time.now(), MIN_TRAINING_SHARE * stepSeconds));
  };
}
