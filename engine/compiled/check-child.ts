/** @file The process that checks one provider, for check-process.ts. It ends when its parent ends, unless the driver hangs. */
import { errorText } from "../../core/errors.ts";
import type { CheckReply, CheckRequest } from "./check-process.ts";
import { deviationFromCpu } from "./provider-check.ts";

const send = process.send?.bind(process);
if (!send) throw new Error("engine/compiled/check-child.ts runs as a child process only");

process.on("disconnect", () => process.exit());
process.once("message", async ({ provider, precision }: CheckRequest) => {
  const reply: CheckReply = await deviationFromCpu(provider, precision).then(
    (deviation) => ({ deviation }),
    (error: unknown) => ({ refusal: errorText(error) }),
  );
  send(reply);
});
