// All that a client needs to enrol: the whole command line, and a QR code for apps.

import type { CreatedToken } from "../api/types";
import { clientCommand, enrolmentText, fleetCommand, serverOf } from "../lib/enrolment";
import { Command } from "./parts";
import { QrCode } from "./qr-code";

/** A new enrolment token as command lines and QR code. Its secret is shown this once. */
export function Enrolment({
  created,
  first = false,
}: {
  created: CreatedToken /** Also a fleet for a first job. */;
  first?: boolean;
}) {
  const { secret } = created;
  // Where the page has an address of its own, the coordinator says that of the device API.
  const server = created.server ?? serverOf(document.baseURI);
  return (
    <div class="enrolment">
      <div>
        <p>On any machine that reaches this one, with a table of yours:</p>
        <Command text={clientCommand(server, secret)} />
        {first && (
          <>
            <p>Or with five clients that share the built-in digits, for the job “First”:</p>
            <Command text={fleetCommand(server, secret)} />
          </>
        )}
        <p class="hint" role="status">
          The token is not shown again.
        </p>
      </div>
      <figure>
        <QrCode text={enrolmentText(server, secret)} label="Address and token as a QR code" />
        <figcaption class="hint">Address and token, for an app that reads them</figcaption>
      </figure>
    </div>
  );
}
