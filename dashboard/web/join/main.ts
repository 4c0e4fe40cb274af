// The page /join: draws digits, keeps them on the device, and trains with them in a worker.

import type { Client, ClientError, OpenJob, Outcome } from "../../../client-sdk/browser/package/index";
import "./join.css";
import { SIDE, type Stroke, sixteenths } from "./drawing";
import { type Drawing, isToken, keepToken, type Place, takePlace, token } from "./kept";

/** Lines of the log. */
const LOG_MAX = 30;
/** Between two sessions, and after failures: at least and at most so long, in milliseconds. */
const PAUSE_MS_MIN = 1_000;
const PAUSE_MS_MAX = 60_000;
const CLASSES = 10;

const find = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;

const canvas = find<HTMLCanvasElement>("canvas");
const pen = canvas.getContext("2d")!;
const totals = { rounds: 0, sent: 0, received: 0 };
let strokes: Stroke[] = [];
let drawings: Drawing[] = [];
let place: Place;
let client: Client | undefined;
/** Grows with each start and stop: a session of an earlier one says nothing any more. */
let turn = 0;
let isOn = false;

/** The text's colour in the theme of the moment: canvases know no variables. */
let ink = "";

function readInk(): void {
  ink = getComputedStyle(document.body).color;
}

function paint(): void {
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.lineWidth = canvas.width / 14;
  pen.lineCap = pen.lineJoin = "round";
  pen.strokeStyle = ink;
  for (const stroke of strokes) {
    pen.beginPath();
    for (const { x, y } of [stroke[0]!, ...stroke]) pen.lineTo(x * canvas.width, y * canvas.height);
    pen.stroke();
  }
  find("pad-hint").hidden = strokes.length > 0;
  for (const button of document.querySelectorAll<HTMLButtonElement>("#digits button, #clear"))
    button.disabled = strokes.length === 0;
}

function drawWith(event: PointerEvent): void {
  const box = canvas.getBoundingClientRect();
  const point = { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  if (event.type === "pointerdown") {
    canvas.setPointerCapture(event.pointerId);
    strokes.push([point]);
  } else if (canvas.hasPointerCapture(event.pointerId)) strokes.at(-1)?.push(point);
  else return;
  event.preventDefault();
  paint();
}

function label(digit: number): void {
  drawings.push({ label: digit, ink: sixteenths(strokes) });
  strokes = [];
  paint();
  showDrawings();
}

function showDrawings(): void {
  place.keep(drawings);
  find("drawings").replaceChildren(
    ...drawings.map((drawing, index) => {
      const small = document.createElement("canvas");
      small.width = small.height = SIDE;
      const context = small.getContext("2d")!;
      context.fillStyle = ink;
      drawing.ink.forEach((sixteenth, pixel) => {
        context.globalAlpha = sixteenth / 16;
        context.fillRect(pixel % SIDE, Math.floor(pixel / SIDE), 1, 1);
      });
      const button = document.createElement("button");
      button.type = "button";
      button.ariaLabel = `Remove this ${drawing.label}`;
      button.append(small, String(drawing.label));
      button.onclick = () => {
        drawings.splice(index, 1);
        showDrawings();
      };
      const item = document.createElement("li");
      item.append(button);
      return item;
    }),
  );
  const count = drawings.length;
  find("count").textContent = count === 1 ? "1 drawing" : `${count} drawings`;
  find("drawings-hint").hidden = count === 0;
  find<HTMLButtonElement>("toggle").disabled = count === 0 && !isOn;
}

function say(text: string, isGood = false): void {
  const item = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = `${new Date().toLocaleTimeString()} `;
  item.append(time, text);
  item.classList.toggle("good", isGood);
  const log = find("log");
  log.prepend(item);
  while (log.children.length > LOG_MAX) log.lastElementChild!.remove();
}

function show(state: string, problem = ""): void {
  find("state").textContent = state;
  find("state").toggleAttribute("data-on", isOn);
  find("toggle").textContent = isOn ? "Stop" : "Start";
  find<HTMLButtonElement>("toggle").disabled = !isOn && drawings.length === 0;
  find("problem").textContent = problem;
  find("problem").hidden = problem === "";
}

function bytes(count: number): string {
  return count < 1_000
    ? `${count} B`
    : count < 1e6
      ? `${(count / 1e3).toFixed(1)} kB`
      : `${(count / 1e6).toFixed(1)} MB`;
}

function plural(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function tell(outcome: Outcome): void {
  totals.sent += outcome.sentBytes;
  totals.received += outcome.receivedBytes;
  const { kind, round, work } = outcome;
  if (kind === "contributed") totals.rounds += 1;
  if (work) find("loss").textContent = work.loss.toFixed(3);
  find("rounds").textContent = String(totals.rounds);
  find("sent").textContent = bytes(totals.sent);
  find("received").textContent = bytes(totals.received);
  const learned = work ? `${plural(work.examples, "drawing")}, loss ${work.loss.toFixed(3)}` : "work from before";
  const sent = `${bytes(outcome.sentBytes)} sent`;
  if (kind === "contributed") say(`Round ${round}: contributed. ${learned}, ${sent}`, true);
  else if (kind === "evaluated") say(`Round ${round}: measured the model. ${learned}, ${sent}`, true);
  else if (kind === "too-late") say(`Round ${round} closed before this device was done`);
}

/** What the job of the population wants, if it is one for drawn digits. */
function wanted(jobs: readonly OpenJob[]): OpenJob | undefined {
  const values = (shape: readonly number[]) => shape.reduce((product, length) => product * length, 1);
  return jobs.find(
    ({ input, output }) => input && output && values(input) === SIDE * SIDE && values(output) === CLASSES,
  );
}

function examples(shape: number[]) {
  return {
    shape,
    inputs: Float32Array.from(drawings.flatMap(({ ink }) => ink.map((sixteenth) => sixteenth / 16))),
    labels: Uint32Array.from(drawings.map(({ label }) => label)),
  };
}

/** One session; how long to wait before the next, and what the page says meanwhile. */
async function session(mine: number): Promise<[number, string]> {
  show("looking for a job");
  const job = wanted(await client!.openJobs());
  if (!job) return [PAUSE_MS_MAX / 6, "no job here trains on digits now"];
  show("waiting for a round");
  const outcome = await client!.runOnce(examples(job.input!), ({ batches }) => {
    if (mine === turn) show(`training, batch ${batches + 1}`);
  });
  if (mine === turn) tell(outcome);
  return [outcome.retryAfterMs, "waiting for a round"];
}

async function takePart(): Promise<void> {
  isOn = true;
  const mine = ++turn;
  let failures = 0;
  while (mine === turn && drawings.length > 0) {
    let [pause, state, problem] = [0, "", ""];
    try {
      [pause, state] = await session(mine);
      failures = 0;
    } catch (thrown) {
      const error = thrown as ClientError;
      if (mine !== turn) return;
      if (["token", "setup", "server", "exposed", "worker"].includes(error.kind)) return stop(error.message);
      failures += 1;
      [pause, state, problem] = [error.retryAfterMs ?? 2_000 * 2 ** failures, "trying again", error.message];
    }
    if (mine !== turn) return;
    show(state, problem);
    const time = Math.min(Math.max(pause, PAUSE_MS_MIN), PAUSE_MS_MAX);
    await new Promise((resolve) => setTimeout(resolve, time));
  }
  if (mine === turn) stop();
}

function stop(problem = ""): void {
  turn += 1;
  isOn = false;
  client?.cancel();
  show("off", problem);
}

async function open(enrolment: string): Promise<void> {
  find("enrol").hidden = true;
  place = await takePlace();
  drawings = place.drawings();
  const isPlain = window.location.protocol === "http:" && !window.isSecureContext;
  find("plain").hidden = !isPlain;
  find("work").hidden = false;
  readInk();
  paint();
  showDrawings();
  const server = new URL("..", window.location.href).href.replace(/\/$/, "");
  // The operator has chosen plain HTTP by serving this page over it. The page says so.
  const options = { server, token: enrolment, store: place.store, allowPlaintext: isPlain };
  const attributes = { platform: "browser" };
  try {
    const path = new URL("tributary/index.js", window.location.href).href;
    const { Client } = (await import(/* @vite-ignore */ path)) as { Client: new (given: object) => Client };
    client = new Client({ ...options, attributes, waitMs: 30_000 });
  } catch {
    find<HTMLButtonElement>("toggle").hidden = true;
    show(
      "off",
      "This coordinator was built without the client for browsers (scripts/browser), so nothing can be trained.",
    );
  }
}

for (let digit = 0; digit < CLASSES; digit++) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = String(digit);
  button.onclick = () => label(digit);
  find("digits").append(button);
}
for (const kind of ["pointerdown", "pointermove"] as const) canvas.addEventListener(kind, drawWith);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (!find("work").hidden) {
    readInk();
    paint();
    showDrawings();
  }
});
find("clear").onclick = () => {
  strokes = [];
  paint();
};
find("toggle").onclick = () => (isOn ? stop() : void takePart());
find("forget").onclick = async () => {
  if (!window.confirm("Delete the drawings and this device's part in the training from this device?")) return;
  turn += 1;
  client?.close();
  await place.forget();
  window.location.reload();
};
find("enrol").onsubmit = (event) => {
  event.preventDefault();
  const given = find<HTMLInputElement>("token").value.trim();
  find("token-wrong").hidden = isToken(given);
  if (!isToken(given)) return;
  keepToken(given);
  void open(given);
};

const known = token();
if (known && isToken(known)) void open(known);
else find("enrol").hidden = false;
