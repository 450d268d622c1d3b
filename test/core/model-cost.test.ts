/** @file A request is paid for when it ends, and neither its failure nor that of the payment hides the other. */
import { expect, test } from "vitest";
import { MgrpoError } from "../../core/errors.ts";
import { payAfter } from "../../core/model-cost.ts";

const late = new MgrpoError("endpoint-unavailable", "took more than 1 s", { retryable: true });
const outage = new MgrpoError("store-unreachable", "no answer from the store", { retryable: true, evidence: "PAID" });

/** Runs a request that fails with `failure`, and a payment that fails with `unpaid`. */
async function run({ failure, unpaid }: { failure?: Error; unpaid?: Error }) {
  const order: string[] = [];
  const fails = async (what: string, error?: Error) => {
    order.push(what);
    if (error) throw error;
    return what;
  };
  const request = () => fails("request", failure);
  const settled = payAfter(request, async () => void (await fails("payment", unpaid)));
  const [result] = await Promise.allSettled([settled]);
  expect(order).toEqual(["request", "payment"]);
  return result.status === "fulfilled" ? result.value : (result.reason as unknown);
}

test("the result is returned once it is paid for; if only one of request and payment fails, its error is thrown as it is", async () => {
  expect(await run({})).toBe("request");
  expect(await run({ failure: late })).toBe(late);
  expect(await run({ unpaid: outage })).toBe(outage);
});

test("if both fail, the error has the payment's code, both messages, and the request's error as its cause", async () => {
  const message = "no answer from the store; the request to be paid for had failed: took more than 1 s";
  const both = await run({ failure: late, unpaid: outage });
  expect(both).toMatchObject({ code: "store-unreachable", retryable: true, evidence: "PAID", cause: late, message });
  const unexpected = await run({ failure: late, unpaid: new TypeError("no such field") });
  expect(unexpected).toMatchObject({ cause: late, message: expect.stringMatching(/^no such field; .*took more/) });
});
