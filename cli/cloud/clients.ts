/** @file Clients for the endpoints that the environment names, for commands that create, check or delete the store. */
import { type AwsClients, openClients, type WireObserver } from "../../adapters/aws/clients.ts";
import { translated } from "../../adapters/aws/errors.ts";

export interface Endpoints extends Pick<AwsClients, "dynamo" | "s3"> {
  /** The endpoint of the latest request to each API; the name of the API before the first one. */
  readonly dynamoUrl: string;
  readonly s3Url: string;
  /** Makes calls to one API. Translates their errors into MgrpoErrors, each with one clear line. */
  callApi<T>(api: "dynamo" | "s3", action: string, call: () => Promise<T>): Promise<T>;
}

export async function withEndpoints<T>(work: (endpoints: Endpoints) => Promise<T>): Promise<T> {
  const urls = { dynamo: "DynamoDB", s3: "S3" };
  const observer = (api: keyof typeof urls): WireObserver => ({
    sent(endpoint) {
      urls[api] = endpoint;
    },
    answered() {},
  });
  const clients = openClients({ dynamo: observer("dynamo"), s3: observer("s3") });
  const endpoints: Endpoints = {
    dynamo: clients.dynamo,
    s3: clients.s3,
    get dynamoUrl() {
      return urls.dynamo;
    },
    get s3Url() {
      return urls.s3;
    },
    callApi: (api, action, call) => translated(action, () => urls[api], call),
  };
  return work(endpoints).finally(() => clients.close());
}
