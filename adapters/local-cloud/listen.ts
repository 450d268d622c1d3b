/** @file Starts and stops an HTTP server on one address. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { MgrpoError } from "../../core/errors.ts";

export interface ListenAddress {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
}

const CLOSE_MILLISECONDS = 1_000;

/** Returns the endpoint's URL. `what` names the server in errors. Rejects with `config-invalid` or `cannot-listen`. */
export async function listen(server: Server, address: ListenAddress, what: string): Promise<string> {
  const { host, port } = address;
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (cause) {
    throw listenFault(address, what, cause);
  }
  const name = host.includes(":") ? `[${host}]` : host;
  return `http://${name}:${(server.address() as AddressInfo).port}`;
}

function listenFault({ host, port }: ListenAddress, what: string, cause: unknown): MgrpoError {
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND")
    return new MgrpoError("config-invalid", `${what}: ${host} is not an address of this machine: name one that is`, {
      cause,
    });
  const fault =
    code === "EADDRINUSE"
      ? `port ${port} of ${host} is in use: stop what listens there, or`
      : `cannot listen on port ${port} of ${host} (${message}):`;
  return new MgrpoError("cannot-listen", `${what}: ${fault} choose another port (0: any free one)`, { cause });
}

/** Stops the server once its responses are sent, or after a second. */
export async function stop(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve, reject) => {
    server.close((error) => (error ? reject(error) : resolve()));
  });
  server.closeIdleConnections();
  const timeout = setTimeout(() => server.closeAllConnections(), CLOSE_MILLISECONDS);
  await closed.finally(() => clearTimeout(timeout));
}
