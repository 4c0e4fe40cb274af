// Access by mouse, with a real coordinator: tokens, accounts, a shared link and its end, roles, and the audit log.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { CreatedToken } from "../src/api/types";
import { linkWith } from "../src/lib/access";
import { type Browser, launch, open, settled } from "./chromium";
import { answered, asked, type Coordinator, start } from "./coordinator";

const POPULATION = "shop";
const PASSWORD = "correct horse battery staple";
/** The lists ask again within this time, in milliseconds. */
const LISTED_MS_MAX = 30_000;

let folder: string;
let coordinator: Coordinator;
/** Signed in as an administrator. */
let admin: Browser;
/** The browser of a second person. */
let other: Browser;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tributary-access-"));
  const database = join(folder, "tributary.db");
  coordinator = await start(["serve", "--listen", "127.0.0.1:0", "--database", database], () => true, folder);
  admin = await launch(coordinator.url);
  other = await launch(coordinator.url, { dark: true });
  await open(admin.page, coordinator.url, coordinator.started.operator_token!, "#/access");
});

afterAll(async () => {
  await admin?.close();
  await other?.close();
  await coordinator?.kill();
  rmSync(folder, { recursive: true, force: true });
});

const enrol = (secret: string) =>
  fetch(`${coordinator.url}/device/v1/clients`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
    body: JSON.stringify({ attributes: {} }),
  });

/** The row of a table that has this name. */
const row = (table: string, name: string) =>
  admin.page.getByRole("table", { name: table, exact: true }).getByRole("row").filter({ hasText: name });

const dialog = () => admin.page.getByRole("dialog");

async function done(): Promise<void> {
  await dialog().getByRole("button", { name: "Done" }).click();
  await dialog().waitFor({ state: "detached" });
}

it("creates an enrolment token with its line, counts its uses, and revokes it", async () => {
  const { page, complaints } = admin;
  await page.getByRole("button", { name: "New population" }).click();
  await dialog().getByLabel("Name").fill(POPULATION);
  await dialog().getByRole("button", { name: "Create", exact: true }).click();
  await row("Populations", POPULATION).waitFor();

  await page.getByRole("button", { name: "New enrolment token" }).click();
  await dialog().getByLabel("Label").fill("site north");
  await dialog().getByLabel("Most clients").fill("many");
  expect(await dialog().getByRole("button", { name: "Create token" }).isDisabled()).toBe(true);
  await dialog().getByLabel("Most clients").fill("3");
  await dialog().getByLabel("Attributes").fill("site=north");
  await dialog().getByRole("button", { name: "Create token" }).click();
  await dialog().getByRole("img", { name: "Address and token as a QR code" }).waitFor();
  const line = await dialog().locator(".command code").first().innerText();
  const secret = /^TRIBUTARY_TOKEN=(\S+) tributary client run --server (\S+) --state-dir client --csv \S+$/.exec(line);
  expect(secret?.[2]).toBe(coordinator.url);
  await done();
  await row("Enrolment tokens", "site north").getByText("0 of 3").waitFor();

  for (let client = 0; client < 2; client += 1) expect((await enrol(secret![1]!)).status).toBe(200);
  await row("Enrolment tokens", "site north").getByText("2 of 3").waitFor({ timeout: LISTED_MS_MAX });
  await row("Enrolment tokens", "site north")
    .getByRole("button", { name: /^Revoke/ })
    .click();
  await dialog().getByText("Revoke its 2 clients, too").waitFor();
  await dialog().getByRole("button", { name: "Revoke", exact: true }).click();
  await row("Enrolment tokens", "site north").waitFor({ state: "detached" });
  expect((await enrol(secret![1]!)).status).toBe(401);
  await page.getByLabel("Ended ones, too").first().check();
  await row("Enrolment tokens", "site north")
    .getByText(/^revoked/)
    .waitFor();
  expect(complaints).toEqual([]);
});

it("shares a link for viewers: its revocation signs them out", async () => {
  const { page } = admin;
  await page.getByRole("button", { name: "Share", exact: true }).click();
  await dialog().getByLabel("For whom").fill("the board");
  await dialog().getByLabel("Shows").selectOption(POPULATION);
  await dialog().getByLabel("Ends after").selectOption({ label: "1 hour" });
  await dialog().getByRole("button", { name: "Create link" }).click();
  const link = await dialog().locator(".command code").innerText();
  await done();
  await row("Operator tokens", "the board").getByText("viewer").waitFor();

  await other.page.goto(link);
  await other.page.getByText(`viewer of ${POPULATION}`).first().waitFor();
  await settled(other.page);
  const sections = other.page.getByRole("navigation", { name: "Sections" });
  expect(await sections.getByRole("link").allInnerTexts()).toEqual(["Overview", "Clients", "System"]);
  expect(await other.page.getByRole("link", { name: "New job" }).count()).toBe(0);
  expect(other.page.url()).not.toContain("token");

  await row("Operator tokens", "the board")
    .getByRole("button", { name: /^Revoke/ })
    .click();
  await dialog().getByRole("button", { name: "Revoke", exact: true }).click();
  await other.page.getByText("You were signed out: the token or session has ended.").waitFor();
});

it("refuses a link that has ended", async () => {
  const body = { kind: "operator", role: "viewer", label: "ended", valid_for_ms: 1 };
  const { secret, token } = await answered<CreatedToken>(coordinator, "tokens", JSON.stringify(body));
  await expect.poll(() => Date.now()).toBeGreaterThan(token.expires_at_ms!);
  await other.page.goto(linkWith(coordinator.url, secret, "#/"));
  await other.page.getByText(/^The coordinator does not know this token/).waitFor();
});

it("gives two people two roles", async () => {
  const { page } = admin;
  await page.getByRole("button", { name: "New account" }).click();
  await dialog().getByLabel("Name").fill("grace");
  await dialog().getByLabel("Role").selectOption("operator");
  await dialog().getByLabel("Population").selectOption(POPULATION);
  await dialog().getByLabel("Password").fill("short");
  expect(await dialog().getByRole("button", { name: "Create account" }).isDisabled()).toBe(true);
  await dialog().getByLabel("Password").fill(PASSWORD);
  await dialog().getByRole("button", { name: "Create account" }).click();
  await row("Accounts", "grace").getByText(POPULATION).waitFor();

  await other.page.getByRole("button", { name: "Use an account" }).click();
  await other.page.getByLabel("Account").fill("grace");
  await other.page.getByLabel("Password").fill(PASSWORD);
  await other.page.getByRole("button", { name: "Sign in" }).click();
  await other.page.getByText(`operator of ${POPULATION}`).first().waitFor();
  await other.page.getByRole("link", { name: "New job" }).first().waitFor();
  await other.page.goto(`${coordinator.url}/#/access`);
  await other.page.getByText("Administrators manage access").waitFor();

  await row("Accounts", "grace").getByRole("button", { name: "Revoke grace" }).click();
  await dialog().getByRole("button", { name: "Revoke", exact: true }).click();
  await other.page.getByText("You were signed out: the token or session has ended.").waitFor();
});

it("finds in the audit log what is looked for, with enrolments of a day as one row", async () => {
  const { page, complaints } = admin;
  const body = { kind: "enrolment", population: POPULATION, label: "site south" };
  const { secret } = await answered<CreatedToken>(coordinator, "tokens", JSON.stringify(body));
  for (let client = 0; client < 3; client += 1) expect((await enrol(secret)).status).toBe(200);
  expect((await asked(coordinator, "audit?fold=true")).status).toBe(200);
  await page.getByRole("link", { name: "System" }).click();
  await settled(page);
  const rows = page.getByRole("table", { name: "What operators did" }).locator("tbody tr");
  // In one look: a count of rows may be that of the filter before.
  const is = async (text: string) => expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining(text)]);
  await rows.filter({ hasText: "site south" }).filter({ hasText: "3 clients" }).waitFor();
  await page.getByLabel("Action").selectOption("account.revoke");
  await is("grace");
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByLabel("Person").fill("site no");
  await is("2 clients");
  await page.getByLabel("Person").fill("");
  await page.getByLabel("Subject").fill("client 4");
  await is("client 4");
  expect(complaints).toEqual([]);
});
