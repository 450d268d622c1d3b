/** @file Kills each process at each of its writes, in a run whose rollouts an app runs (deaths.ts). */
import { recipeRunner } from "../../gpu-workers/gateway/runners.ts";
import { relayApp } from "../fixtures/relay/app.ts";
import { appConfig } from "../fixtures/relay/start.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(appConfig({ ...SHORT_RUN, steps: 1 }), { runner: recipeRunner(relayApp) });
