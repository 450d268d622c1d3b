/** @file What a deployment is told from outside: its stage and a few variables of the environment, checked before anything is made. */

export interface Settings {
  readonly stage: string;
  /** True where the app is protected: data outlives the stack and is not emptied by anybody. */
  readonly keep: boolean;
  /** Who is told when an alarm rings. Undefined: nobody; alarms are only seen in the console. */
  readonly alertEmail: string | undefined;
  /** What the whole account may cost in a month before mails are sent. */
  readonly monthlyUsd: number;
  /** False: the serverless part alone, for workers on machines of one's own. */
  readonly fleets: boolean;
  /** True: the recipes of the user's project are deployed along (MGRPO_PROJECT). */
  readonly project: boolean;
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
  } = environment;
  const monthlyUsd = Number(monthly);
  if (!(monthlyUsd > 0)) throw new Error(`MGRPO_MONTHLY_USD=${monthly}: write an amount in US dollars, e.g. 100`);
  if (fleets !== undefined && fleets !== "none")
    throw new Error(
      `MGRPO_FLEETS=${fleets}: write none, for no GPU fleets, or leave it out; fleets are listed in sst.config.ts`,
    );
  if (keep && !alertEmail)
    throw new Error(`MGRPO_ALERT_EMAIL is not set: stage ${stage} needs somebody who is told when an alarm rings`);
  return { stage, keep, alertEmail, monthlyUsd, fleets: fleets !== "none", project: Boolean(MGRPO_PROJECT) };
}
