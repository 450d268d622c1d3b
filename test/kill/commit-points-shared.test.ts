/** @file Deaths at every write of a run whose agents share a policy (deaths.ts). */
import { sharedRelayConfig } from "../fixtures/relay/start.ts";
import { SHORT_RUN, testDeaths } from "./deaths.ts";

testDeaths(sharedRelayConfig(SHORT_RUN));
