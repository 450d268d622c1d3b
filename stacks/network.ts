/**
 * @file The network of workers: public subnets, because a NAT gateway and interface endpoints are billed hourly even when nothing runs;
 * ingress only from worker to worker; gateway endpoints for S3 and DynamoDB, which are free and keep that traffic off the internet.
 */
/// <reference path="../.sst/platform/config.d.ts" />

/** Maximum number of availability zones. More zones make spot capacity easier to find. */
const MAX_ZONES = 4;

export interface Network {
  readonly subnets: readonly aws.ec2.Subnet[];
  readonly securityGroup: aws.ec2.SecurityGroup;
}

/** `port`: for delegations. */
export async function createNetwork(port: number): Promise<Network> {
  const vpc = new aws.ec2.Vpc("Workers", { cidrBlock: "10.0.0.0/16", enableDnsHostnames: true });
  const gateway = new aws.ec2.InternetGateway("WorkersGateway", { vpcId: vpc.id });
  const routes = new aws.ec2.RouteTable("WorkersRoutes", {
    vpcId: vpc.id,
    routes: [{ cidrBlock: "0.0.0.0/0", gatewayId: gateway.id }],
  });
  // Without Local Zones and Wavelength Zones, which an account opts into: they have few instance types, and hardly any spot capacity.
  const { names } = await aws.getAvailabilityZones({
    state: "available",
    filters: [{ name: "opt-in-status", values: ["opt-in-not-required"] }],
  });
  const subnets = names.slice(0, MAX_ZONES).map((availabilityZone, i) => {
    const subnet = new aws.ec2.Subnet(`WorkersSubnet${i}`, {
      vpcId: vpc.id,
      cidrBlock: `10.0.${16 * i}.0/20`,
      availabilityZone,
      mapPublicIpOnLaunch: true,
    });
    new aws.ec2.RouteTableAssociation(`WorkersSubnet${i}Routes`, { subnetId: subnet.id, routeTableId: routes.id });
    return subnet;
  });
  const { region } = await aws.getRegion();
  for (const [name, service] of Object.entries({ Objects: "s3", Records: "dynamodb" })) {
    new aws.ec2.VpcEndpoint(`${name}Endpoint`, {
      vpcId: vpc.id,
      serviceName: `com.amazonaws.${region}.${service}`,
      vpcEndpointType: "Gateway",
      routeTableIds: [routes.id],
    });
  }
  const securityGroup = new aws.ec2.SecurityGroup("WorkersGroup", {
    vpcId: vpc.id,
    description: "mgrpo workers: delegations from worker to worker",
    ingress: [{ protocol: "tcp", fromPort: port, toPort: port, self: true }],
    egress: [{ protocol: "-1", fromPort: 0, toPort: 0, cidrBlocks: ["0.0.0.0/0"] }],
  });
  return { subnets, securityGroup };
}
