/** @file What a page shows if the server fails. */
import { inBrowser, openDashboard } from "./browser.ts";

const { open, dashboard } = openDashboard();

inBrowser("a comparison whose runs cannot be read says why", async () => {
  const page = await open("/");
  await page.route("**/api/runs/*", (route) => route.fulfill({ body: "gone" }));
  await page.goto(`${dashboard().origin}/compare?runs=demo,tiny`);
  await page.getByText("the server answers HTTP 200 without a view").waitFor();
});
