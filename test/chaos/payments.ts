/** @file The payments for an agent behind an API, as the table receives them: NumberedPayments writes each with a number. */
import { tableKeys } from "../../core/contracts/keys.ts";
import type { StoreWrite } from "./writes.ts";

export interface Payment {
  readonly run: string;
  /** `<payer>.<number>`. A payment that is sent again has the same. */
  readonly name: string;
  readonly microUsd: number;
}

/** Undefined if the write is not a payment. A payer registers with a write of number 0. */
export function paymentOf(write: StoreWrite): Payment | undefined {
  if (write.kind !== "update") return undefined;
  const [, run = ""] = /^RUN#(\S+) /.exec(write.key) ?? [];
  const { pk, sk } = tableKeys.agentSpending(run);
  if (write.key !== `${pk} ${sk}`) return undefined;
  for (const [path, { N: number }] of write.set) {
    const [, payer] = /^payments\.(\d+)$/.exec(path) ?? [];
    if (payer === undefined || number === undefined || number === "0") continue;
    return { run, name: `${payer}.${number}`, microUsd: Number(write.added.get("microUsd")?.N ?? 0) };
  }
  return undefined;
}
