// A parser of server-sent events (WHATWG HTML, section 9.2.6), since EventSource cannot send an authorization header.

export interface Message {
  /** The last id that the stream has named so far. */
  id: string;
  event: string;
  data: string;
}

/** Longest line that is believed, in characters. */
export const LINE_LENGTH_MAX = 1 << 20;

/** Takes text in pieces as they arrive and hands out whole messages. */
export class SseParser {
  private rest = "";
  private data: string[] = [];
  private event = "";
  private first = true;
  /** The id of the message that is being read; it counts once the message is whole. */
  private id: string;
  /** Wait before the next connection, when the server asked for one. */
  retryMs: number | undefined;

  /** `lastId` is that of the last whole message, also of one without data: where to resume. */
  constructor(public lastId = "") {
    this.id = lastId;
  }

  push(piece: string): Message[] {
    const messages: Message[] = [];
    let text = this.rest + piece;
    if (this.first && text.length > 0) {
      this.first = false;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    // A carriage return at the very end may be the first half of a line end.
    const held = text.endsWith("\r") ? 1 : 0;
    const lines = text.slice(0, text.length - held).split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + (held ? "\r" : "");
    if (this.rest.length > LINE_LENGTH_MAX) throw new Error("a line of the event stream is too long");
    for (const line of lines) this.line(line, messages);
    return messages;
  }

  private line(line: string, messages: Message[]): void {
    if (line === "") {
      this.lastId = this.id;
      if (this.data.length > 0) {
        messages.push({ id: this.lastId, event: this.event || "message", data: this.data.join("\n") });
      }
      this.data = [];
      this.event = "";
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // A comment keeps the connection alive.
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "event") this.event = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
  }
}
