// What a client needs to enrol: as a command line, and as the text of a QR code.

/** Where the coordinator is, from the address of the page. A proxy may add a path. */
export function serverOf(page: string): string {
  const url = new URL(".", page);
  url.hash = "";
  url.search = "";
  return url.href.replace(/\/$/, "");
}

/** Starts a client on a table. The token is no argument, because other users of a machine can see command lines. */
export function clientCommand(server: string, token: string): string {
  return `TRIBUTARY_TOKEN=${token} tributary client run --server ${server} --state-dir client --csv examples.csv`;
}

/** Starts clients on the built-in digits, for a first job. */
export function fleetCommand(server: string, token: string): string {
  return `TRIBUTARY_TOKEN=${token} tributary client run --server ${server} --fleet 5 --dataset digits`;
}

/** What an app reads from the QR code. */
export function enrolmentText(server: string, token: string): string {
  return JSON.stringify({ server, token });
}
