/** @file The law on the tools' bill: it is exact, except for requests that were charged but not yet sent when a process ended. */
import { expect, test } from "vitest";
import { toolBillErrors } from "./bills.ts";
import type { Entry, RunResult, Trial } from "./history.ts";
import { LIMITS } from "./limits.ts";

const request = (process: string, path = "/page?word=amber"): Entry => {
  const more = { method: "GET", channel: "world", fault: undefined, status: 200, facts: [] } as const;
  return { sentAt: 0, answeredAt: 1, process, path, ...more };
};

/** Of two requests of run `a`'s tool, one by each worker of the run that has tools, and requests that the run does not pay for. */
function trialOf(toolsMicroUsd: number, starts: Trial["starts"] = {}): Trial {
  const run: RunResult = {
    ...{ run: "a", status: "finished", records: {}, judgesMicroUsd: 0, agentsMicroUsd: 0, foreignTrajectories: [] },
    toolsMicroUsd,
  };
  const history = [
    request("searcher-a"),
    request("eval-a"),
    request("searcher-a", "/think"),
    request("searcher-b"),
    request("functions", "/v1/chat/completions"),
  ];
  return {
    endedInTime: true,
    seconds: 1,
    runs: [run],
    history,
    log: [],
    strikes: [],
    limits: LIMITS,
    starts,
    ends: [],
  };
}

test("each request of a run's tool costs its price, once", () => {
  expect(toolBillErrors(trialOf(2000))).toEqual([]);
  const started = { "searcher-a": 1, "eval-a": 1 };
  expect(toolBillErrors(trialOf(2000, started))).toEqual([]);
  for (const wrong of [0, 1000, 1999, 2001, 3000, 4000]) {
    const found = [expect.stringMatching(`^run a: 2 requests for 2000 micro-dollars, billed ${wrong}, 0 ends`)];
    expect(toolBillErrors(trialOf(wrong))).toEqual(found);
    expect(toolBillErrors(trialOf(wrong, started))).toEqual(found);
  }
});

test("the end of a process with tools excuses up to four charges without a request, but no missing charge; other ends excuse nothing", () => {
  for (const process of ["searcher-a", "eval-a"]) {
    expect(toolBillErrors(trialOf(6000, { [process]: 2 }))).toEqual([]);
    expect(toolBillErrors(trialOf(7000, { [process]: 2 }))).toHaveLength(1);
    expect(toolBillErrors(trialOf(10_000, { [process]: 3 }))).toEqual([]);
    expect(toolBillErrors(trialOf(1000, { [process]: 2 }))).toHaveLength(1);
  }
  expect(toolBillErrors(trialOf(3000, { "main-a": 2, "searcher-b": 2, functions: 2, cloud: 2 }))).toHaveLength(1);
});
