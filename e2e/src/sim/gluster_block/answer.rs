//! The shapes of answers: the generic failure, and lists of keys that print as JSON or as lines.

use super::json::{Form, Json};
use super::protocol::Reply;

/// A failure with the code and text of the generic failure object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The answer.
    ///
    /// "`{ "RESULT": "FAIL", "errCode": <int>, "errMsg": "<string>" }` … Plain text: message line then
    /// `RESULT:FAIL` (no space) — `info` prints the message only" (reference §2.2).
    pub(crate) fn reply(&self, form: Form) -> Reply {
        let line = self.message.trim_end_matches('\n');
        self.reply_with(form, &format!("{line}\nRESULT:FAIL\n"))
    }

    /// The answer of `info`, which has no result line in plain text.
    pub(crate) fn reply_bare(&self, form: Form) -> Reply {
        self.reply_with(form, &format!("{}\n", self.message.trim_end_matches('\n')))
    }

    fn reply_with(&self, form: Form, text: &str) -> Reply {
        if !form.is_json() {
            return Reply::new(self.code, text);
        }
        let object = Json::map([
            ("RESULT", Json::text("FAIL")),
            ("errCode", Json::Number(i64::from(self.code))),
            ("errMsg", Json::text(&self.message)),
        ]);
        Reply::new(self.code, object.print(form))
    }
}

/// An answer made of keys in their order.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pairs: Vec<(String, Json)>,
}

impl Answer {
    pub(crate) fn text(&mut self, key: &str, value: impl Into<String>) -> &mut Self {
        self.json(key, Json::text(value))
    }

    pub(crate) fn json(&mut self, key: &str, value: Json) -> &mut Self {
        self.pairs.push((key.to_owned(), value));
        self
    }

    pub(crate) fn number(&mut self, key: &str, value: i32) -> &mut Self {
        self.json(key, Json::Number(i64::from(value)))
    }

    /// A list, left out when empty.
    pub(crate) fn some_list(&mut self, key: &str, items: &[String]) -> &mut Self {
        if !items.is_empty() {
            self.json(key, Json::texts(items.iter().cloned()));
        }
        self
    }

    /// The reply with exit code `exit`.
    pub(crate) fn reply(self, exit: i32, form: Form) -> Reply {
        if form.is_json() {
            return Reply::new(exit, Json::Map(self.pairs).print(form));
        }
        let lines = self
            .pairs
            .iter()
            .map(|(key, value)| format!("{key}: {}\n", words(value)));
        Reply::new(exit, lines.collect::<String>())
    }
}

fn words(value: &Json) -> String {
    match value {
        Json::Text(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        Json::Bool(truth) => truth.to_string(),
        Json::List(items) => items.iter().map(words).collect::<Vec<_>>().join(" "),
        Json::Map(pairs) => {
            let each = pairs
                .iter()
                .map(|(key, value)| format!("{key}:[{}]", words(value)));
            each.collect::<Vec<_>>().join(" ")
        }
    }
}

/// The portals of a create answer, as the daemon gathers them.
///
/// "`PORTAL(S)` may omit an address that is a textual suffix of another (`10.55.0.1` lost next to `110.55.0.1`)"
/// (reference §0.15): an address is taken for known when its text occurs in what was gathered so far.
pub(crate) fn portals(hosts: &[String]) -> Vec<String> {
    let mut gathered = String::new();
    let mut portals = Vec::new();
    for host in hosts {
        let portal = format!("{host}:3260");
        if !gathered.contains(&portal) {
            gathered.push_str(&portal);
            gathered.push(' ');
            portals.push(portal);
        }
    }
    portals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_prints_as_recorded() {
        // reference §2.2, §2.5
        let failure = Failure::new(2, "block V/B doesn't exist");
        let reply = failure.reply(Form::Spaced);
        assert_eq!(reply.exit, 2);
        assert_eq!(
            reply.out,
            "{ \"RESULT\": \"FAIL\", \"errCode\": 2, \"errMsg\": \"block V\\/B doesn't exist\" }\n"
        );
        assert_eq!(
            failure.reply(Form::Text).out,
            "block V/B doesn't exist\nRESULT:FAIL\n"
        );
        assert_eq!(
            failure.reply_bare(Form::Text).out,
            "block V/B doesn't exist\n"
        );
        let with_newline = Failure::new(17, "BLOCK with name: 'b1' already EXIST\n");
        assert!(
            with_newline
                .reply(Form::Plain)
                .out
                .contains("already EXIST\\n\"}")
        );
    }

    #[test]
    fn an_address_that_ends_another_is_lost_from_the_portals() {
        let hosts = |list: &[&str]| {
            list.iter()
                .map(|host| (*host).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            portals(&hosts(&["110.55.0.1", "10.55.0.1"])),
            ["110.55.0.1:3260"]
        );
        assert_eq!(portals(&hosts(&["10.55.0.1", "110.55.0.1"])).len(), 2);
    }

    #[test]
    fn empty_lists_are_left_out() {
        let mut answer = Answer::default();
        answer
            .some_list("FAILED ON", &[])
            .some_list("SUCCESSFUL ON", &["10.0.0.1".to_owned()]);
        answer.text("RESULT", "SUCCESS");
        assert_eq!(
            answer.reply(0, Form::Text).out,
            "SUCCESSFUL ON: 10.0.0.1\nRESULT: SUCCESS\n"
        );
    }
}
