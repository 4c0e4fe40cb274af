import { describe, expect, it } from "vitest";
import { LINE_LENGTH_MAX, SseParser } from "../src/api/sse";

const STREAM =
  'retry: 3000\n\n: alive\n\nid: 7\nevent: transition\ndata: {"a":1}\n\n' +
  "id: 8\ndata: one\ndata: two\n\ndata:no space\n\n";

const MESSAGES = [
  { id: "7", event: "transition", data: '{"a":1}' },
  { id: "8", event: "message", data: "one\ntwo" },
  { id: "8", event: "message", data: "no space" },
];

describe("the parser of server-sent events", () => {
  it("reads messages, several lines of data, comments and the retry time", () => {
    const parser = new SseParser();
    expect(parser.push(STREAM)).toEqual(MESSAGES);
    expect(parser.retryMs).toBe(3000);
    expect(parser.lastId).toBe("8");
  });

  it("does not care where the stream is cut, nor how lines end", () => {
    for (const lineEnd of ["\n", "\r\n", "\r"]) {
      // A lone carriage return at the very end may be half a line end; a comment shows that it was whole.
      const text = `${STREAM.replaceAll("\n", lineEnd)}: end${lineEnd}`;
      for (let size = 1; size < 9; size += 1) {
        const parser = new SseParser();
        const got = [];
        for (let at = 0; at < text.length; at += size) got.push(...parser.push(text.slice(at, at + size)));
        expect(got, `${JSON.stringify(lineEnd)} ${size}`).toEqual(MESSAGES);
      }
    }
  });

  it("keeps the last id of the connection before, ignores a message without data and unknown fields", () => {
    const parser = new SseParser("41");
    expect(parser.push("event: nothing\n\nfoo: bar\ndata: x\n\n")).toEqual([{ id: "41", event: "message", data: "x" }]);
  });

  it("remembers the id of a message without data, and of no message that broke off", () => {
    const parser = new SseParser();
    expect(parser.push("id: 12\n\n")).toEqual([]);
    expect(parser.lastId).toBe("12");
    parser.push("id: 13\ndata: cut of");
    expect(parser.lastId).toBe("12");
  });

  it("drops a byte order mark and an id with a zero", () => {
    const parser = new SseParser("1");
    expect(parser.push("\uFEFFdata: x\nid: a\0b\n\n")).toEqual([{ id: "1", event: "message", data: "x" }]);
  });

  it("does not collect an endless line", () => {
    const parser = new SseParser();
    expect(() => parser.push("x".repeat(LINE_LENGTH_MAX + 1))).toThrow("too long");
  });
});
