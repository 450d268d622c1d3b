/**
 * @file `mgrpo launch`: starts a run on the store that the environment names, without workers: those are started wherever the GPUs are,
 * with `mgrpo worker`. Launching the same run again changes nothing, but for one that halted: it goes on.
 */
import { openAwsStore } from "../adapters/aws/store.ts";
import type { RunConfig } from "../core/contracts/config.ts";
import { objectKeys, tableKeys } from "../core/contracts/keys.ts";
import { canonicalJson } from "../core/contracts/parse.ts";
import { MgrpoError } from "../core/errors.ts";
import type { Store } from "../core/ports.ts";
import { differences } from "../core/training/differences.ts";
import { resolveConfig } from "../core/training/resolve.ts";
import { composeFunctions } from "../functions/compose.ts";
import { openRecipe } from "../recipes/registry.ts";
import { prepareRun, readBases } from "./local/prepare.ts";
import { runNameOf } from "./local/run-folder.ts";
import { workersOf } from "./local/workers.ts";
import { storeNames } from "./store-names.ts";
import { MGRPO } from "./terminal/name.ts";
import { refuseMissingParts, type TrainOptions } from "./train.ts";

export async function launch(recipeName: string, options: TrainOptions): Promise<void> {
  const names = storeNames("launch");
  const recipe = await openRecipe(recipeName);
  const { arm = "mgrpo", seed = 1 } = options;
  const set = options.steps === undefined ? options.set : [...options.set, `steps=${options.steps}`];
  const store = openAwsStore(names);
  try {
    const run = options.run ?? (await freeName(store, recipe.name, arm, seed));
    const config = resolveConfig(recipe, { run, seed, arm, set, recipe: recipeName });
    await refuseMissingParts(config);
    const bases = readBases(config);
    await refuseOther(store, config);
    await prepareRun({ store, functions: composeFunctions(store) }, config, () => bases, recipe.questions(config.seed));
    print(config, names);
  } finally {
    store.close();
  }
}

async function freeName(store: Store, recipe: string, arm: string, seed: number): Promise<string> {
  for (let n = 1; ; n++) {
    const name = runNameOf(recipe, arm, seed, n);
    if (!(await store.table.get(tableKeys.run(name)))) return name;
  }
}

/** A run is what it was started as. */
async function refuseOther({ objects }: Store, config: RunConfig): Promise<void> {
  const stored = await objects.get(objectKeys.config(config.run));
  if (!stored) return;
  const found = differences(JSON.parse(canonicalJson(config)), JSON.parse(new TextDecoder().decode(stored)));
  if (found.length === 0) return;
  throw new MgrpoError(
    "config-invalid",
    `run '${config.run}' is in the store with another config: ${found.join("; ")}; give another name with --run`,
  );
}

function print(config: RunConfig, { table, bucket }: { table: string; bucket: string }): void {
  const workers = workersOf(config).map(({ arguments: flags }) => `${MGRPO} worker ${flags.map(quoted).join(" ")}`);
  if (!process.stdout.isTTY) {
    console.log(JSON.stringify({ kind: "launched", run: config.run, table, bucket, workers }));
    return;
  }
  console.log(
    `\n  run '${config.run}' is in table '${table}' and bucket '${bucket}'. Its workers, wherever they are to be:\n`,
  );
  for (const worker of workers) console.log(`    ${worker}`);
  console.log(
    "\n  Each needs this environment and one MGRPO_WORKER_TOKEN; a sub-agent's also --host, an address that the others reach.",
    `\n  Where neither \`mgrpo cloud serve\` nor Lambda runs the functions: ${MGRPO} dispatch\n`,
  );
}

const quoted = (flag: string) => (flag === "*" ? "'*'" : flag);
