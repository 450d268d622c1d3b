/** @file The settings of a deployment: its stage and a few environment variables, checked before anything is created. */

export interface Settings {
  readonly stage: string;
  /** True if the app is protected: its data outlives the stack, and the bucket is never emptied. */
  readonly keep: boolean;
  /** Receives alarms. Undefined: alarms show in the console only. */
  readonly alertEmail: string | undefined;
  /** The monthly budget of the whole account, for notifications. */
  readonly monthlyUsd: number;
  /** False: only the serverless part, for workers on your own machines. */
  readonly hasFleets: boolean;
  /** Fleet -> base model of the SkyRL server on its instance. */
  readonly servers: ReadonlyMap<string, string>;
  /** True: the recipes of the user's project are deployed too (MGRPO_PROJECT). */
  readonly hasProject: boolean;
}

interface App {
  readonly stage: string;
  readonly protect?: boolean;
}

export function readSettings(
  { stage, protect: keep = false }: App,
  environment: Readonly<Record<string, string | undefined>>,
): Settings {
  const {
    MGRPO_ALERT_EMAIL: alertEmail,
    MGRPO_MONTHLY_USD: monthly = "100",
    MGRPO_FLEETS: fleets,
    MGRPO_PROJECT,
    MGRPO_SERVERS: servers = "",
  } = environment;
  const monthlyUsd = Number(monthly);
  if (!(monthlyUsd > 0 && Number.isFinite(monthlyUsd)))
    throw new Error(`MGRPO_MONTHLY_USD=${monthly}: write an amount in US dollars, e.g. 100`);
  if (fleets !== undefined && fleets !== "none")
    throw new Error(
      `MGRPO_FLEETS=${fleets}: write none, for no fleets, or unset it; fleets are listed in sst.config.ts`,
    );
  if (fleets === "none" && servers !== "")
    throw new Error("MGRPO_SERVERS: servers run on the instances of fleets, and MGRPO_FLEETS=none; unset one of them");
  if (keep && !alertEmail)
    throw new Error(`MGRPO_ALERT_EMAIL is empty or not set: stage ${stage} needs an address that receives alarms`);
  return {
    stage,
    keep,
    alertEmail,
    monthlyUsd,
    hasFleets: fleets !== "none",
    servers: readServers(servers),
    hasProject: Boolean(MGRPO_PROJECT),
  };
}

/** `main=Qwen/Qwen3-4B,searcher=Qwen/Qwen3-1.7B`. A model's name goes into the boot script, so no other characters are allowed. */
function readServers(text: string): ReadonlyMap<string, string> {
  const entries = text.split(",").filter((entry) => entry !== "");
  const servers = new Map(
    entries.map((entry): [string, string] => {
      const [, fleet, model] = /^([a-z][a-z0-9-]*)=([\w.-]+\/[\w.-]+)$/.exec(entry) ?? [];
      if (fleet !== undefined && model !== undefined) return [fleet, model];
      throw new Error(
        `MGRPO_SERVERS: '${entry}': write <fleet>=<owner>/<model>, separated by commas, e.g. main=Qwen/Qwen3-4B`,
      );
    }),
  );
  if (servers.size < entries.length)
    throw new Error(`MGRPO_SERVERS=${text}: a fleet is named twice: give each fleet one model`);
  return servers;
}
