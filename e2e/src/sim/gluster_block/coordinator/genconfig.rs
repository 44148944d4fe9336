//! `genconfig`: a host's saved configuration, made anew from metadata.

use serde_json::Value;

use super::super::answer::Failure;
use super::super::json::{Form, Json};
use super::super::metadata::State;
use super::super::protocol::{HostCreate, Reply};
use super::super::saved::{SavedConfig, exports};
use super::replace::host_create;
use super::{CliProgram, Stop};

impl CliProgram {
    /// Prints the document of one host: "always pretty JSON …, whatever the flag; contains `chap_userid`/
    /// `chap_password` in clear. Failure: fixed `Operation failed, …`. An IP that hosts nothing yields two empty
    /// arrays, exit 0" (reference §2.9).
    pub(super) fn genconfig(&mut self, volumes: &str, address: &str) -> Reply {
        let mut config = SavedConfig::default();
        for volume in volumes.split(',') {
            if self.add_volume(volume, address, &mut config).is_err() {
                let text = "Operation failed, please check the log file to find the reason.\n";
                return Reply::new(255, text);
            }
        }
        let document = serde_json::to_value(&config).unwrap_or(Value::Null);
        Reply::new(0, to_json(&document).print(Form::Pretty))
    }

    fn add_volume(
        &mut self,
        volume: &str,
        address: &str,
        config: &mut SavedConfig,
    ) -> Result<(), Stop> {
        let work = self.begin("genconfig", volume, "", Form::Text)?;
        for block in work.io(work.volume.blocks())? {
            let Some(read) = work.io(work.volume.metadata(&block))? else {
                return Err(
                    Failure::new(2, format!("block {volume}/{block} doesn't exist")).into(),
                );
            };
            if !read.state_of(address).is_some_and(State::is_valid) {
                continue;
            }
            let wanted = host_create(&read, &block, &work.server);
            let (object, target) = exports(&HostCreate {
                address: address.to_owned(),
                ..wanted
            });
            config.insert(object, target);
        }
        Ok(())
    }
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::text(""),
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Number(number) => Json::Number(number.as_i64().unwrap_or(i64::MAX)),
        Value::String(text) => Json::text(text),
        Value::Array(items) => Json::List(items.iter().map(to_json).collect()),
        Value::Object(pairs) => Json::map(
            pairs
                .iter()
                .map(|(key, value)| (key.as_str(), to_json(value))),
        ),
    }
}
