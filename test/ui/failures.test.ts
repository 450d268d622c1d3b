/** @file What a page shows if the server fails. */
import { inBrowser, openDashboard } from "./browser.ts";

const { open, dashboard } = openDashboard();

inBrowser("a comparison whose runs cannot be read says why", async () => {
  const page = await open("/");
  await page.route("**/api/runs/*", (route) => route.fulfill({ body: "gone" }));
  await page.goto(`${dashboard().origin}/compare?runs=demo,tiny`);
  await page.getByText("the server answers HTTP 200 without a view").waitFor();
});

inBrowser("a list of runs that gets no updates shows the runs it has, and says so", async () => {
  const page = await open("/");
  // The browser logs an error when the updates fail: it must not count as a fault of the page.
  page.removeAllListeners("console");
  await page.route("**/api/events", (route) => route.fulfill({ body: "gone" }));
  await page.reload();
  await page.getByText(/may be missing or out of date: the server refuses to send this page updates/).waitFor();
  await page.getByRole("link", { name: "demo" }).waitFor();
});
