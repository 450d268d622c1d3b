/**
 * @file How many records of each kind a run has in its own partition. Groups, of which each step adds the same number, and verdicts have
 * partitions of their own.
 */
import { paginateQuery } from "@aws-sdk/client-dynamodb";
import { openClients, type StoreAccess } from "../../adapters/aws/clients.ts";
import { tableKeys } from "../../core/contracts/keys.ts";

const NO_OBSERVER = { sent() {}, answered() {} };

/** @param access the environment of the run's cloud. */
export async function countRecords(access: StoreAccess, run: string): Promise<Record<string, number>> {
  const clients = openClients({ dynamo: NO_OBSERVER, s3: NO_OBSERVER }, access);
  const counts: Record<string, number> = {};
  try {
    const input = {
      TableName: access["MGRPO_TABLE"],
      KeyConditionExpression: "pk = :pk",
      ExpressionAttributeValues: { ":pk": { S: tableKeys.run(run).pk } },
      ProjectionExpression: "sk",
      ConsistentRead: true,
    };
    for await (const { Items = [] } of paginateQuery({ client: clients.dynamo }, input)) {
      for (const { sk } of Items) {
        const [kind = ""] = (sk?.S ?? "").split("#", 1);
        counts[kind] = (counts[kind] ?? 0) + 1;
      }
    }
    return counts;
  } finally {
    clients.close();
  }
}
