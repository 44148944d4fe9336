//! JSON text byte for byte as json-c 0.16 prints it: key order kept, `/` escaped, four ways of spacing.
//!
//! Not `serde_json`, because consumers of gluster-block meet exactly this text and a simulator that prints
//! friendlier JSON would hide what they must cope with (reference §1: `/` is escaped as `\/`, the text ends
//! with a newline, `--json-pretty` has no space after the colon).

/// How the caller wants the answer: the `JsonResponseFormat` of the wire protocol (reference §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Human-readable lines, no JSON.
    Text,
    /// `--json-plain`: no spaces at all.
    Plain,
    /// `--json-spaced`: one line with spaces.
    Spaced,
    /// `--json-pretty`: several lines.
    Pretty,
    /// `--json`: the same text as [`Form::Spaced`].
    Default,
}

impl Form {
    /// The flag of the command line that asks for this form, if `word` is one.
    pub(crate) fn from_flag(word: &str) -> Option<Self> {
        match word {
            "--json" => Some(Self::Default),
            "--json-plain" => Some(Self::Plain),
            "--json-spaced" => Some(Self::Spaced),
            "--json-pretty" => Some(Self::Pretty),
            _ => None,
        }
    }

    /// The number on the wire.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Text => 0,
            Self::Plain => 1,
            Self::Spaced => 2,
            Self::Pretty => 3,
            Self::Default => 4,
        }
    }

    /// The form of a number on the wire; `None` for a number outside the enumeration.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [
            Self::Text,
            Self::Plain,
            Self::Spaced,
            Self::Pretty,
            Self::Default,
        ]
        .into_iter()
        .find(|form| form.number() == number)
    }

    /// Whether the answer is JSON.
    pub(crate) fn is_json(self) -> bool {
        self != Self::Text
    }
}

/// A JSON value whose objects keep the order in which keys were added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    /// A string.
    Text(String),
    /// An integer; the daemon prints no other numbers.
    Number(i64),
    /// `true` or `false` (saved configuration only).
    Bool(bool),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Map(Vec<(String, Json)>),
}

impl Json {
    /// A string value.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// An array of strings.
    pub(crate) fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// An object from pairs, in their order.
    pub(crate) fn map<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Map(
            pairs
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }

    /// The text of this value in `form`, ending with a newline.
    pub(crate) fn print(&self, form: Form) -> String {
        let mut text = String::new();
        Printer { form }.value(self, 0, &mut text);
        text.push('\n');
        text
    }
}

struct Printer {
    form: Form,
}

impl Printer {
    fn is_pretty(&self) -> bool {
        self.form == Form::Pretty
    }

    fn is_spaced(&self) -> bool {
        matches!(self.form, Form::Spaced | Form::Default)
    }

    fn value(&self, value: &Json, depth: usize, out: &mut String) {
        match value {
            Json::Text(text) => quoted(text, out),
            Json::Number(number) => out.push_str(&number.to_string()),
            Json::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Json::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.before_item(index, depth, out);
                    self.value(item, depth + 1, out);
                }
                self.close(']', depth, out);
            }
            Json::Map(pairs) => {
                out.push('{');
                for (index, (key, item)) in pairs.iter().enumerate() {
                    self.before_item(index, depth, out);
                    quoted(key, out);
                    out.push_str(if self.is_spaced() { ": " } else { ":" });
                    self.value(item, depth + 1, out);
                }
                self.close('}', depth, out);
            }
        }
    }

    fn before_item(&self, index: usize, depth: usize, out: &mut String) {
        if index > 0 {
            out.push(',');
        }
        if self.is_pretty() {
            out.push('\n');
            out.push_str(&"  ".repeat(depth + 1));
        } else if self.is_spaced() {
            out.push(' ');
        }
    }

    fn close(&self, bracket: char, depth: usize, out: &mut String) {
        if self.is_pretty() {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        } else if self.is_spaced() {
            out.push(' ');
        }
        out.push(bracket);
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' => out.push_str("\\/"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if u32::from(control) < 0x20 => {
                out.extend(["\\u", &format!("{:04x}", u32::from(control))]);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_answer() -> Json {
        Json::map([
            (
                "IQN",
                Json::text("iqn.2016-12.org.gluster-block:7f9aa1b2-..."),
            ),
            (
                "PORTAL(S)",
                Json::texts(["10.55.0.1:3260", "10.55.0.2:3260", "10.55.0.3:3260"]),
            ),
            ("RESULT", Json::text("SUCCESS")),
        ])
    }

    #[test]
    fn spaced_text_is_the_recorded_create_answer() {
        // reference §2.3, first literal example
        let recorded = "{ \"IQN\": \"iqn.2016-12.org.gluster-block:7f9aa1b2-...\", \"PORTAL(S)\": [ \
                        \"10.55.0.1:3260\", \"10.55.0.2:3260\", \"10.55.0.3:3260\" ], \"RESULT\": \"SUCCESS\" }\n";
        assert_eq!(create_answer().print(Form::Spaced), recorded);
        assert_eq!(create_answer().print(Form::Default), recorded);
    }

    #[test]
    fn plain_text_has_no_spaces_and_pretty_text_none_after_the_colon() {
        // reference §1: `--json-plain` (no spaces), `--json-pretty` (`"KEY":value` without a space)
        let answer = Json::map([("A", Json::texts(["x"])), ("N", Json::Number(3))]);
        assert_eq!(answer.print(Form::Plain), "{\"A\":[\"x\"],\"N\":3}\n");
        assert_eq!(
            answer.print(Form::Pretty),
            "{\n  \"A\":[\n    \"x\"\n  ],\n  \"N\":3\n}\n"
        );
    }

    #[test]
    fn an_empty_list_prints_as_recorded() {
        // reference §2.5: `EXPORTED ON` may be `[ ]`
        let answer = Json::map([("EXPORTED ON", Json::List(Vec::new()))]);
        assert_eq!(answer.print(Form::Spaced), "{ \"EXPORTED ON\": [ ] }\n");
        assert_eq!(answer.print(Form::Plain), "{\"EXPORTED ON\":[]}\n");
        assert_eq!(
            answer.print(Form::Pretty),
            "{\n  \"EXPORTED ON\":[\n  ]\n}\n"
        );
    }

    #[test]
    fn slashes_newlines_and_controls_are_escaped() {
        // reference §2.5: `block V\/B doesn't exist`; §2.3: `Low space on the volume hostvol\n`
        let text = Json::text("block V/B doesn't \"exist\"\n\u{1}").print(Form::Plain);
        assert_eq!(text, "\"block V\\/B doesn't \\\"exist\\\"\\n\\u0001\"\n");
    }
}
