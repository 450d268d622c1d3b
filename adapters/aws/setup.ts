/** @file Makes the table. Repeating it changes nothing. */
import { CreateTableCommand, DescribeTableCommand, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import pRetry from "p-retry";

/** Records under `pk` and `sk`, paid per request. */
export async function createTable(dynamo: DynamoDBClient, name: string): Promise<void> {
  const command = new CreateTableCommand({
    TableName: name,
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: [
      { AttributeName: "pk", AttributeType: "S" },
      { AttributeName: "sk", AttributeType: "S" },
    ],
    KeySchema: [
      { AttributeName: "pk", KeyType: "HASH" },
      { AttributeName: "sk", KeyType: "RANGE" },
    ],
  });
  await unlessThere(/^ResourceInUseException$/, () => dynamo.send(command));
  await pRetry(
    async () => {
      const { Table } = await dynamo.send(new DescribeTableCommand({ TableName: name }));
      if (Table?.TableStatus !== "ACTIVE") throw new Error(`table ${name} is ${Table?.TableStatus}`);
    },
    { retries: 30, minTimeout: 20, factor: 1.5, maxTimeout: 2000 },
  );
}

async function unlessThere(already: RegExp, create: () => Promise<unknown>): Promise<void> {
  try {
    await create();
  } catch (error) {
    if (!already.test((error as Error).name)) throw error;
  }
}
