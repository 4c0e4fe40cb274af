// Launches Debian's Chromium, signs in, and records what a page must not do.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, chromium, type Page } from "playwright-core";

/** Flags for a quiet, hermetic browser. */
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** The adapter SwiftShader, which Chromium brings along. On Linux it gives none without the first flag. */
const SOFTWARE_GPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
const PATHS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export interface Options {
  width?: number;
  height?: number;
  dark?: boolean;
  /** A name such as `Europe/Berlin`. */
  zone?: string;
  /** Accepts certificates of any CA, as a device does on which the coordinator's private CA is installed. */
  trusting?: boolean;
  /** Has WebGPU, on an adapter that computes on the CPU (SwiftShader). */
  gpu?: boolean;
}

export interface Browser {
  context: BrowserContext;
  page: Page;
  /** Console errors, uncaught exceptions, refused resources and requests to other hosts, in words. */
  complaints: string[];
  close: () => Promise<void>;
}

/** A fresh profile and one page of it. `base` is the only host that may be asked. */
export async function launch(
  base: string,
  { width = 1280, height = 900, dark = false, zone = "Europe/Berlin", trusting = false, gpu = false }: Options = {},
): Promise<Browser> {
  const executablePath = process.env.CHROMIUM ?? PATHS.find((path) => existsSync(path));
  if (!executablePath) throw new Error("Chromium is missing: apt-get install chromium, or set CHROMIUM to its path");
  const profile = mkdtempSync(join(tmpdir(), "tributary-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: true,
    args: [...FLAGS, ...(trusting ? ["--ignore-certificate-errors"] : []), ...(gpu ? SOFTWARE_GPU : [])],
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    timezoneId: zone,
    acceptDownloads: true,
  });
  const page = context.pages()[0] ?? (await context.newPage());
  const complaints: string[] = [];
  const host = new URL(base).host;
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(`console: ${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => complaints.push(`exception: ${error.stack ?? error.message}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol.startsWith("http") && url.host !== host) complaints.push(`another host: ${request.url()}`);
  });
  const close = async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  };
  return { context, page, complaints, close };
}

/** Opens a view, signed in by the token in the address. */
export async function open(page: Page, base: string, token: string, view = "#/"): Promise<void> {
  await page.goto(`${base}/#token=${encodeURIComponent(token)}`);
  await page.getByRole("navigation", { name: "Sections" }).waitFor();
  if (view !== "#/") await go(page, view);
  await settled(page);
}

/** Goes to another view of the page that is open. */
export async function go(page: Page, view: string): Promise<void> {
  await page.evaluate((hash) => {
    window.location.hash = hash;
  }, view);
  await settled(page);
}

/** Waits until nothing is being loaded. */
export async function settled(page: Page): Promise<void> {
  await page.waitForFunction(
    () => document.querySelector("main h1, main h2") !== null && document.querySelector("[aria-busy=true]") === null,
    undefined,
    { timeout: 20_000 },
  );
}
