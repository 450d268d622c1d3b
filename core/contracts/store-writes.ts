/** @file The writes to DynamoDB, as the local cloud counts them and reports show them. */
import * as z from "zod";

export const StoreWrites = z.strictObject({
  requests: z.number().describe("Write requests, retries included."),
  bytes: z.number().describe("Bytes of the request bodies."),
  units: z
    .number()
    .describe(
      "Write units: 1 per 1,024 bytes of the whole item, rounded up. A write whose condition fails is billed too.",
    ),
});
export type StoreWrites = z.infer<typeof StoreWrites>;
