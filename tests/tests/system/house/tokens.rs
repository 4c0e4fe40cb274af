//! The tokens of a Rust source, without comments and without what only tests compile.
//!
//! This is a lexer and no parser such as `syn`: a parser leaves the bodies of macros as tokens, and the names in them
//! are imports like any others. What the rules need of the grammar is little: items, paths and `use` trees.

/// What a token is, as far as the rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or keyword.
    Name,
    /// Opens a group.
    Open,
    /// Closes a group.
    Close,
    /// Another mark, one character each; only `::` is one token of two.
    Mark,
    /// A string; its text is what stands between the quotes, escapes included.
    Text,
    /// A number, character or lifetime.
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// From 1.
    pub(super) line: usize,
    /// Index of the token after this one; after the closing delimiter where this one opens a group.
    pub(super) next: usize,
}

impl Token<'_> {
    pub(super) fn is(&self, text: &str) -> bool {
        self.kind != Kind::Text && self.text == text
    }

    pub(super) fn is_name(&self) -> bool {
        self.kind == Kind::Name
    }
}

/// The tokens that a build without tests compiles.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { source, at: 0, line: 1 };
    let mut all: Vec<_> = std::iter::from_fn(|| lexer.token()).collect();
    match_groups(&mut all);
    let mut kept = without_tests(&all);
    match_groups(&mut kept);
    kept
}

fn match_groups(tokens: &mut [Token<'_>]) {
    let mut open = Vec::new();
    for at in 0..tokens.len() {
        tokens[at].next = at + 1;
        match tokens[at].kind {
            Kind::Open => open.push(at),
            Kind::Close => {
                if let Some(start) = open.pop() {
                    tokens[start].next = at + 1;
                }
            }
            Kind::Name | Kind::Mark | Kind::Text | Kind::Other => {}
        }
    }
}

fn without_tests<'a>(all: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(all.len());
    let mut at = 0;
    while at < all.len() {
        let is_attribute = all[at].is("#");
        let inner = is_attribute && all.get(at + 1).is_some_and(|token| token.is("!"));
        let group = at + 1 + usize::from(inner);
        if is_attribute && all.get(group).is_some_and(|token| token.is("[")) {
            let end = all[group].next;
            if is_for_tests(&all[group..end]) {
                if inner {
                    return Vec::new();
                }
                at = end_of_item(all, end);
                continue;
            }
        }
        kept.push(all[at]);
        at += 1;
    }
    kept
}

/// Whether an attribute is a `cfg` that only tests meet. `any(test, ..)` has other ways to be met.
fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let negated = |at: usize| attribute[at - 1].is("(") && attribute[at - 2].is("not");
    attribute[1].is("cfg")
        && !attribute.iter().any(|token| token.is("any"))
        && (3..attribute.len()).any(|at| attribute[at].is("test") && !negated(at))
}

/// Index after the item, statement, field or variant at `at`, its further attributes included.
fn end_of_item(tokens: &[Token<'_>], mut at: usize) -> usize {
    while tokens[at].is("#") {
        at = tokens[at + 1].next;
    }
    let start = at;
    let is_item = tokens[start..]
        .iter()
        .take(6)
        .any(|token| ["fn", "struct", "enum", "union", "trait", "impl", "mod", "macro_rules"].contains(&token.text));
    let ends_with_semicolon =
        tokens[start..].iter().take(3).any(|token| ["use", "const", "static", "type", "let"].contains(&token.text));
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is(";") {
            return at + 1;
        } else if token.kind == Kind::Close {
            return at;
        } else if token.is(",") && !is_item && !ends_with_semicolon {
            return at + 1;
        } else if token.is("{") && (is_item || !ends_with_semicolon) {
            return token.next;
        }
        at = token.next;
    }
    at
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn token(&mut self) -> Option<Token<'a>> {
        self.skip_space_and_comments();
        let rest = &self.source[self.at..];
        let first = *rest.as_bytes().first()?;
        let (kind, length, text) = match first {
            b'"' => text(rest, 0),
            b'\'' => quote(rest, 0),
            _ if is_name_byte(first) && !first.is_ascii_digit() => word(rest),
            _ if first.is_ascii_digit() => number(rest),
            b':' if rest.starts_with("::") => (Kind::Mark, 2, &rest[..2]),
            b'(' | b'[' | b'{' => (Kind::Open, 1, &rest[..1]),
            b')' | b']' | b'}' => (Kind::Close, 1, &rest[..1]),
            _ => (Kind::Mark, 1, &rest[..1]),
        };
        let line = self.line;
        if kind == Kind::Text {
            self.count_lines(length);
        }
        self.at += length;
        Some(Token { kind, text, line, next: 0 })
    }

    /// Counts the lines that end within the next bytes.
    fn count_lines(&mut self, length: usize) {
        self.line += self.source[self.at..self.at + length].matches('\n').count();
    }

    fn skip_space_and_comments(&mut self) {
        let bytes = self.source.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            let rest = &self.source[self.at..];
            match (byte, bytes.get(self.at + 1)) {
                (b'\n', _) => (self.line, self.at) = (self.line + 1, self.at + 1),
                (b' ' | b'\t' | b'\r', _) => self.at += 1,
                (b'/', Some(b'/')) => self.at += rest.find('\n').unwrap_or(rest.len()),
                (b'/', Some(b'*')) => {
                    let length = block_comment(rest);
                    self.count_lines(length);
                    self.at += length;
                }
                _ => return,
            }
        }
    }
}

/// Bytes of letters beyond ASCII are taken for parts of a name; outside of strings and comments they are nothing else.
fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn name_length(rest: &str) -> usize {
    let (bytes, mut length) = (rest.as_bytes(), 0);
    while length < bytes.len() && is_name_byte(bytes[length]) {
        length += 1;
    }
    length
}

/// A name, or a literal that begins like one: `r"..."`, `br#"..."#`, `b'x'`, `r#type`.
fn word(rest: &str) -> (Kind, usize, &str) {
    let (word, after) = rest.split_at(name_length(rest));
    match word {
        "r" | "br" | "cr" if after.trim_start_matches('#').starts_with('"') => {
            let hashes = after.find('"').unwrap_or_default();
            let close = format!("\"{}", "#".repeat(hashes));
            let start = word.len() + hashes + 1;
            let end = rest[start..].find(&close).map_or(rest.len(), |at| start + at);
            (Kind::Text, (end + close.len()).min(rest.len()), &rest[start..end])
        }
        "r" if after.starts_with('#') => {
            let name = &after[1..][..name_length(&after[1..])];
            (Kind::Name, name.len() + 2, name)
        }
        "b" | "c" if after.starts_with('"') => text(rest, 1),
        "b" if after.starts_with('\'') => quote(rest, 1),
        _ => (Kind::Name, word.len(), word),
    }
}

fn text(rest: &str, prefix: usize) -> (Kind, usize, &str) {
    let end = end_of_literal(rest, prefix + 1, b'"');
    (Kind::Text, (end + 1).min(rest.len()), &rest[prefix + 1..end])
}

/// A character, or a lifetime: `'a'` and `'\n'` against `'a`.
fn quote(rest: &str, prefix: usize) -> (Kind, usize, &str) {
    let inner = &rest[prefix + 1..];
    let mut after = inner.chars();
    let (first, second) = (after.next(), after.next());
    let length = if first == Some('\\') || second == Some('\'') {
        (end_of_literal(rest, prefix + 1, b'\'') + 1).min(rest.len())
    } else {
        prefix + 1 + name_length(inner)
    };
    (Kind::Other, length, &rest[..length])
}

fn number(rest: &str) -> (Kind, usize, &str) {
    let bytes = rest.as_bytes();
    // `1.5` is one number; `0..n` and `1.max(2)` begin with one.
    let is_point = |at: usize| bytes[at] == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
    let length = (1..bytes.len()).find(|at| !is_name_byte(bytes[*at]) && !is_point(*at)).unwrap_or(bytes.len());
    (Kind::Other, length, &rest[..length])
}

/// Index of the quote that ends a literal whose contents begin at `start`.
fn end_of_literal(rest: &str, start: usize, quote: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = start;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// Length of a block comment; they nest.
fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}
