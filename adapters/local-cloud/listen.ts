/** @file Listens on one address. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { MgrpoError } from "../../core/errors.ts";

export interface ListenAddress {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
}

/** Returns the endpoint's URL. */
export async function listen(server: Server, { host, port }: ListenAddress, what: string): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, "listening");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND")
      throw new MgrpoError("config-invalid", `${what}: ${host} is no address of this machine: name one of its own`, {
        cause,
      });
    if (code !== "EADDRINUSE") throw cause;
    throw new MgrpoError(
      "port-in-use",
      `${what}: port ${port} of ${host} is in use: stop what listens there, or choose another port (0: any free one)`,
      { cause },
    );
  }
  const address = host.includes(":") ? `[${host}]` : host;
  return `http://${address}:${(server.address() as AddressInfo).port}`;
}

/** Ends a server once its answers are out. */
export async function stop(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve, reject) => {
    server.close((error) => (error ? reject(error) : resolve()));
  });
  server.closeIdleConnections();
  const patience = setTimeout(() => server.closeAllConnections(), 1_000);
  await closed.finally(() => clearTimeout(patience));
}
