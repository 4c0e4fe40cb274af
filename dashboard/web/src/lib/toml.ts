// Enough of TOML to colour it.

export type TokenKind = "comment" | "table" | "key" | "string" | "value" | "plain";

export interface Token {
  kind: TokenKind;
  text: string;
}

/** One group per kind, in the order in which they are tried. */
const KINDS = [
  /(?<comment>#[^\n]*)/,
  /(?<string>"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?)/,
  /(?<table>^[ \t]*\[\[?[^\]\n=]*\]\]?(?=[ \t]*(?:#|$)))/,
  /(?<key>[A-Za-z0-9_.-]+(?=[ \t]*=))/,
  /(?<value>\b(?:true|false|inf|nan)\b|[+-]?\d[\d_.eE+:TZ-]*)/,
];
const PATTERN = new RegExp(KINDS.map(({ source }) => source).join("|"), "gm");

/** The text in coloured pieces; joined, they are the text again. */
export function tokens(text: string): Token[] {
  const result: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(PATTERN)) {
    if (match.index > end) result.push({ kind: "plain", text: text.slice(end, match.index) });
    const kind = Object.entries(match.groups!).find(([, found]) => found !== undefined)![0] as TokenKind;
    result.push({ kind, text: match[0] });
    end = match.index + match[0].length;
  }
  if (end < text.length) result.push({ kind: "plain", text: text.slice(end) });
  return result;
}
