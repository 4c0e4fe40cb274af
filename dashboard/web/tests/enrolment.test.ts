import { generate } from "lean-qr";
import { describe, expect, it } from "vitest";
import { clientCommand, enrolmentText, fleetCommand, serverOf } from "../src/lib/enrolment";
import { isNew } from "../src/views/first-steps";

const TOKEN = `tributary_enrolment_${"a".repeat(43)}_ca_${"b".repeat(64)}`;

describe("enrolment", () => {
  it("names the coordinator by the address of the page", () => {
    expect(serverOf("http://127.0.0.1:7300/#/jobs/1?tab=models")).toBe("http://127.0.0.1:7300");
    expect(serverOf("https://site.example.org/fl/index.html?x=1#/")).toBe("https://site.example.org/fl");
  });

  it("is a command line with the server, and the token in the variable", () => {
    const command = clientCommand("http://127.0.0.1:7300", TOKEN);
    expect(command).toContain(`TRIBUTARY_TOKEN=${TOKEN} tributary client run --server http://127.0.0.1:7300 `);
    expect(fleetCommand("http://127.0.0.1:7300", TOKEN)).toContain("--fleet 5 --dataset digits");
  });

  it("fits a QR code that a phone reads, also with the fingerprint of a CA", () => {
    const text = enrolmentText("https://coordinator.example.org:7300/below", TOKEN);
    expect(JSON.parse(text)).toEqual({ server: "https://coordinator.example.org:7300/below", token: TOKEN });
    // Version 15 has 77 modules.
    expect(generate(text).size).toBeLessThanOrEqual(77);
  });

  it("is left to do until there are a job and a client", () => {
    const overview = (clients: number[], jobs: number) =>
      ({ populations: clients.map((count) => ({ clients: count })), jobs: Array(jobs) }) as never;
    expect(isNew(overview([], 0))).toBe(true);
    expect(isNew(overview([0], 1))).toBe(true);
    expect(isNew(overview([0, 3], 0))).toBe(true);
    expect(isNew(overview([0, 3], 1))).toBe(false);
  });
});
