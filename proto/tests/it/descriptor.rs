//! Holds the compiled protocol against a table of CSI 1.13 that was written from the specification's descriptor and not
//! from our files: names, numbers, types, oneofs, reserved numbers, enum values, services, streams and marks.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use protox::Compiler;
use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, ExtensionDescriptor, FieldDescriptor, Kind,
    MessageDescriptor, ServiceDescriptor, Value,
};

const TABLE: &str = include_str!("csi-1.13.txt");
const PACKAGE: &str = "csi.v1";

#[test]
fn the_protocol_is_csi_1_13_no_less_and_no_more() {
    let wanted: BTreeSet<String> = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let compiled = lines_of(&compile("csi.proto"));

    let missing: Vec<_> = wanted.difference(&compiled).collect();
    let extra: Vec<_> = compiled.difference(&wanted).collect();

    assert!(
        missing.is_empty() && extra.is_empty(),
        "in the table alone: {missing:#?}\nin the protocol alone: {extra:#?}"
    );
}

#[test]
fn the_services_have_as_many_rpcs_as_the_specification() {
    let pool = compile("csi.proto");
    let count = |service: &str| {
        let name = format!("{PACKAGE}.{service}");
        pool.get_service_by_name(&name).unwrap().methods().len()
    };

    let counts = [
        "Identity",
        "Controller",
        "GroupController",
        "SnapshotMetadata",
        "Node",
    ]
    .map(count);

    assert_eq!(counts, [3, 17, 4, 2, 10]);
}

#[test]
fn the_legacy_dialect_uses_reserved_numbers_only() {
    let csi = compile("csi.proto");
    let legacy = compile("legacy.proto");
    let mut seen = 0;
    for overlay in messages_of(&legacy, "csi.legacy") {
        let name = overlay.full_name().replace("csi.legacy", PACKAGE);
        let Some(base) = csi.get_message_by_name(&name) else {
            assert_eq!(overlay.name(), "VolumeCondition");
            continue;
        };
        for field in overlay.fields() {
            let number = field.number();
            assert!(
                base.reserved_ranges().any(|r| r.contains(&number)),
                "{name}"
            );
            seen += 1;
        }
    }
    for overlay in legacy.all_enums() {
        let name = overlay.full_name().replace("csi.legacy", PACKAGE);
        let base = csi.get_enum_by_name(&name).unwrap();
        for value in overlay.values().filter(|value| value.number() != 0) {
            let number = value.number();
            assert!(
                base.reserved_ranges().any(|r| r.contains(&number)),
                "{name}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 5);
}

fn compile(file: &str) -> DescriptorPool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let mut compiler = Compiler::new([folder]).unwrap();
    compiler.include_imports(true).open_file(file).unwrap();
    compiler.descriptor_pool()
}

fn lines_of(pool: &DescriptorPool) -> BTreeSet<String> {
    let ours = |name: &str| name == PACKAGE;
    let messages = messages_of(pool, PACKAGE).map(|m| message_line(&m));
    let enums = pool.all_enums().filter(|e| ours(e.package_name()));
    let services = pool.services().filter(|s| ours(s.package_name()));
    let options = pool.all_extensions().filter(|o| ours(o.package_name()));
    messages
        .chain(enums.map(|e| enum_line(&e)))
        .chain(services.map(|s| service_line(&s)))
        .chain(options.map(|o| option_line(&o)))
        .collect()
}

fn messages_of<'a>(
    pool: &'a DescriptorPool,
    package: &'a str,
) -> impl Iterator<Item = MessageDescriptor> + 'a {
    pool.all_messages()
        .filter(move |m| m.package_name() == package && !m.is_map_entry())
}

fn message_line(message: &MessageDescriptor) -> String {
    let name = short(message.full_name());
    let alpha = mark(&message.options(), "alpha_message", " alpha");
    let fields = joined(message.fields().map(|field| field_text(&field)));
    let reserved = reserved(message.reserved_ranges().map(|r| (r.start, r.end)));
    format!("message {name}{alpha}:{fields}{reserved}")
}

fn field_text(field: &FieldDescriptor) -> String {
    let options = field.options();
    let list = if field.is_list() { "[]" } else { "" };
    let oneof = field
        .containing_oneof()
        .map(|oneof| format!(" in {}", oneof.name()))
        .unwrap_or_default();
    format!(
        "{}={} {}{list}{oneof}{}{}",
        field.name(),
        field.number(),
        type_name(field),
        mark(&options, "csi_secret", " secret"),
        mark(&options, "alpha_field", " alpha"),
    )
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "any other kind differs from the table, which is the point"
)]
fn type_name(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(entry) if entry.is_map_entry() => {
            let pair = [entry.map_entry_key_field(), entry.map_entry_value_field()];
            assert!(pair.iter().all(|f| f.kind() == Kind::String), "{field:?}");
            "map".to_owned()
        }
        Kind::Message(message) => short(message.full_name()).to_owned(),
        Kind::Enum(values) => short(values.full_name()).to_owned(),
        Kind::Bool => "bool".to_owned(),
        Kind::Int32 => "int32".to_owned(),
        Kind::Int64 => "int64".to_owned(),
        Kind::String => "string".to_owned(),
        other => format!("{other:?}, which CSI does not use"),
    }
}

fn enum_line(values: &EnumDescriptor) -> String {
    let name = short(values.full_name());
    let alpha = mark(&values.options(), "alpha_enum", " alpha");
    let texts = values.values().map(|value| {
        let alpha = mark(&value.options(), "alpha_enum_value", " alpha");
        format!("{}={}{alpha}", value.name(), value.number())
    });
    // Unlike a message's, an enum's ranges include their end.
    let ranges = values.reserved_ranges().map(|r| (*r.start(), *r.end() + 1));
    format!("enum {name}{alpha}:{}{}", joined(texts), reserved(ranges))
}

fn service_line(service: &ServiceDescriptor) -> String {
    let alpha = mark(&service.options(), "alpha_service", " alpha");
    let rpcs = service.methods().map(|rpc| {
        let name = rpc.name();
        assert_eq!(rpc.input().name(), format!("{name}Request"));
        assert_eq!(rpc.output().name(), format!("{name}Response"));
        assert!(!rpc.is_client_streaming(), "{name}");
        let stream = if rpc.is_server_streaming() {
            " server stream"
        } else {
            ""
        };
        format!(
            "{name}{}{stream}",
            mark(&rpc.options(), "alpha_method", " alpha")
        )
    });
    format!("service {}{alpha}:{}", service.name(), joined(rpcs))
}

fn option_line(option: &ExtensionDescriptor) -> String {
    let (name, number) = (option.name(), option.number());
    let kind = format!("{:?}", option.kind()).to_lowercase();
    let on = option.containing_message();
    format!("option {name}={number} {kind} on {}", on.name())
}

fn mark(options: &DynamicMessage, name: &str, text: &'static str) -> &'static str {
    let marked = options
        .extensions()
        .any(|(extension, value)| extension.name() == name && *value == Value::Bool(true));
    if marked { text } else { "" }
}

/// Half-open ranges, of which the specification has only such with one number.
fn reserved<N: Display>(ranges: impl Iterator<Item = (N, N)>) -> String {
    let texts = ranges.map(|(from, end)| format!("; reserved {from} before {end}"));
    texts.collect::<Vec<_>>().concat()
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        return String::new();
    }
    format!(" {}", texts.join(", "))
}

fn short(name: &str) -> &str {
    ["csi.v1.", "google.protobuf."]
        .into_iter()
        .find_map(|package| name.strip_prefix(package))
        .unwrap_or(name)
}
