/**
 * @file A fake control plane of a deployment: in memory, and over HTTP in AWS's protocols (Auto Scaling in the Query protocol, EventBridge
 * in JSON).
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { ObjectCreated } from "../../core/contracts/messages.ts";
import type { Controls } from "../../core/ports.ts";

export interface ControlPlane {
  /** Group -> desired capacity. */
  readonly capacities: Map<string, number>;
  clock: "on" | "off";
  /** Every write of a capacity or of the clock's state, in order. */
  readonly writes: string[];
  /** Keys whose events were sent again. */
  readonly redelivered: string[];
}

export function controlPlane(groups: readonly string[], clock: "on" | "off" = "off"): ControlPlane {
  return { capacities: new Map(groups.map((group) => [group, 0])), clock, writes: [], redelivered: [] };
}

export function memoryControls(plane: ControlPlane): Controls {
  return {
    capacities: {
      async read(groups) {
        return new Map([...plane.capacities].filter(([group]) => groups.includes(group)));
      },
      async write(group, instances) {
        if (!plane.capacities.has(group)) throw new Error(`no group ${group}`);
        plane.capacities.set(group, instances);
        plane.writes.push(`${group} ${instances}`);
      },
    },
    scheduleSwitch: {
      isOn: async () => plane.clock === "on",
      async turn(to) {
        plane.clock = to;
        plane.writes.push(`clock ${to}`);
      },
    },
    events: {
      async redeliver(keys) {
        plane.redelivered.push(...keys);
      },
    },
  };
}

/** Serves the plane over HTTP. The SDK finds it through the variables in `environment`. Its only EventBridge rule is `clock`. */
export async function serveControlPlane(plane: ControlPlane) {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const target = request.headers["x-amz-target"];
    const form = new URLSearchParams(body);
    const [service, action] =
      typeof target === "string" ? ["events", target.split(".")[1]] : ["autoscaling", form.get("Action")];
    asked.push(`${service}:${action}`);
    const { status = 200, body: reply } =
      service === "events" ? eventBridge(plane, action ?? "", JSON.parse(body)) : autoScaling(plane, form);
    response.writeHead(status).end(reply);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    endpoint,
    /** IAM actions of the requests, in order. */
    asked,
    environment: { AWS_ENDPOINT_URL_AUTO_SCALING: endpoint, AWS_ENDPOINT_URL_EVENTBRIDGE: endpoint },
    close: () => new Promise((closed) => server.close(closed).closeAllConnections()),
  };
}

interface Reply {
  readonly status?: number;
  readonly body: string;
}

interface EventBridgeRequest {
  readonly Name?: string;
  readonly Entries?: readonly { readonly Source: string; readonly DetailType: string; readonly Detail: string }[];
}

function eventBridge(plane: ControlPlane, action: string, { Name, Entries = [] }: EventBridgeRequest): Reply {
  if (action === "PutEvents") {
    const events = Entries.map(({ Source: source, DetailType, Detail }) =>
      ObjectCreated.parse({ source, "detail-type": DetailType, detail: JSON.parse(Detail) }),
    );
    plane.redelivered.push(...events.map(({ detail }) => detail.object.key));
    return { body: JSON.stringify({ FailedEntryCount: 0, Entries: events.map(() => ({ EventId: "1" })) }) };
  }
  if (Name !== "clock")
    return { status: 400, body: JSON.stringify({ __type: "ResourceNotFoundException", message: `no rule ${Name}` }) };
  if (action === "DescribeRule")
    return { body: JSON.stringify({ Name, State: plane.clock === "on" ? "ENABLED" : "DISABLED" }) };
  plane.clock = action === "EnableRule" ? "on" : "off";
  plane.writes.push(`clock ${plane.clock}`);
  return { body: "{}" };
}

function autoScaling(plane: ControlPlane, form: URLSearchParams): Reply {
  const action = form.get("Action") ?? "";
  const result = (inner: string) => ({
    body: `<${action}Response xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><${action}Result>${inner}</${action}Result></${action}Response>`,
  });
  if (action === "DescribeAutoScalingGroups") {
    const names = [...form]
      .filter(([name]) => name.startsWith("AutoScalingGroupNames.member."))
      .map(([, name]) => name);
    const found = names
      .filter((name) => plane.capacities.has(name))
      .map((name) => {
        const capacity = `<DesiredCapacity>${plane.capacities.get(name)}</DesiredCapacity>`;
        return `<member><AutoScalingGroupName>${name}</AutoScalingGroupName>${capacity}</member>`;
      });
    return result(`<AutoScalingGroups>${found.join("")}</AutoScalingGroups>`);
  }
  const group = form.get("AutoScalingGroupName") ?? "";
  if (!plane.capacities.has(group))
    return {
      status: 400,
      body: `<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>AutoScalingGroup name not found - no such group: ${group}</Message></Error></ErrorResponse>`,
    };
  const capacity = Number(form.get("DesiredCapacity"));
  plane.capacities.set(group, capacity);
  plane.writes.push(`${group} ${capacity}`);
  return result("");
}
