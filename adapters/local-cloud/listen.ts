/** @file Listens on 127.0.0.1. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { MgrpoError } from "../../core/errors.ts";

/** Port 0: any free one. Returns the endpoint's URL, an IP address, so that S3 clients use path style. */
export async function listen(server: Server, port: number, what: string): Promise<string> {
  server.listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EADDRINUSE") throw cause;
    throw new MgrpoError(
      "port-in-use",
      `${what}: port ${port} of 127.0.0.1 is in use: stop what listens there, or choose another port (0: any free one)`,
      { cause },
    );
  }
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
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
