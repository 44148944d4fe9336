//! Compiles the protocol files without a `protoc` program.
//!
//! Two things are done to the descriptors on the way: `legacy.proto` is laid over CSI 1.13, and messages that carry
//! secrets lose their derived `Debug` and get one that leaves the secrets out.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use prost_types::source_code_info::Location;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use protox::Compiler;
use protox::prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor, Value};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut compiler = Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(["csi.proto", "legacy.proto"])?;
    let pool = compiler.descriptor_pool();
    let secret_keepers = messages_with_secrets(&pool);
    let mut files = compiler.file_descriptor_set();
    lay_legacy_over_csi(&mut files)?;

    #[expect(
        clippy::disallowed_methods,
        reason = "cargo speaks to build scripts by variables"
    )]
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(
        Path::new(&out).join("redacted.rs"),
        redacted_debug(&secret_keepers)?,
    )?;
    // Default stubs: an RPC that a service leaves out answers UNIMPLEMENTED.
    // No transport: the clients take any, so that servers are built without one.
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        .build_transport(false)
        .skip_debug(secret_keepers.iter().map(MessageDescriptor::full_name))
        .compile_fds(files)?;
    Ok(())
}

/// Gives the fields and enum values of each legacy message to the message of the same name in `csi.v1`.
///
/// The message that is only legacy's stays; the fields refer to it.
fn lay_legacy_over_csi(files: &mut FileDescriptorSet) -> Result<(), String> {
    let is_legacy = |file: &&mut FileDescriptorProto| file.package() == "csi.legacy";
    let legacy = files.file.iter_mut().find(is_legacy);
    let legacy = legacy.ok_or("legacy.proto was not compiled")?;
    let (own, overlays) = std::mem::take(&mut legacy.message_type)
        .into_iter()
        .partition::<Vec<_>, _>(|message| message.name() == "VolumeCondition");
    legacy.message_type = own;
    for overlay in overlays {
        let mut csi = files.file.iter_mut().filter(|f| f.package() == "csi.v1");
        let merged = csi.any(|file| {
            let base = file.message_type.iter_mut();
            let base = base.enumerate().find(|(_, m)| m.name() == overlay.name());
            let Some((index, base)) = base else {
                return false;
            };
            let places = &mut file.source_code_info.get_or_insert_default().location;
            merge_message(base, &overlay, &[MESSAGES, index], places)
        });
        if !merged {
            return Err(format!("csi.v1 has nothing like {}", overlay.name()));
        }
    }
    Ok(())
}

// Steps of a path into a file's descriptor: the field numbers of descriptor.proto.
const MESSAGES: usize = 4;
const NESTED_MESSAGES: usize = 3;
const NESTED_ENUMS: usize = 4;
const FIELDS: usize = 2;
const VALUES: usize = 2;

/// False when `base` lacks a message or enum that `overlay` adds to.
fn merge_message(
    base: &mut DescriptorProto,
    overlay: &DescriptorProto,
    path: &[usize],
    places: &mut Vec<Location>,
) -> bool {
    for field in &overlay.field {
        places.push(place(path, &[FIELDS, base.field.len()]));
        base.field.push(field.clone());
    }
    let nested = overlay.nested_type.iter().all(|nested| {
        let inner = base.nested_type.iter_mut().enumerate();
        let inner = inner.into_iter().find(|(_, m)| m.name() == nested.name());
        inner.is_some_and(|(index, inner)| {
            let path = [path, &[NESTED_MESSAGES, index]].concat();
            merge_message(inner, nested, &path, places)
        })
    });
    let enums = overlay.enum_type.iter().all(|values| {
        let inner = base.enum_type.iter_mut().enumerate();
        let inner = inner.into_iter().find(|(_, e)| e.name() == values.name());
        inner.is_some_and(|(index, inner)| {
            // A proto3 enum must have a zero, so the overlay repeats it.
            for value in values.value.iter().filter(|v| v.number() != 0) {
                let step = [NESTED_ENUMS, index, VALUES, inner.value.len()];
                places.push(place(path, &step));
                inner.value.push(value.clone());
            }
            true
        })
    });
    nested && enums
}

/// Where something stands: the code generator insists on a place for everything that it writes.
fn place(path: &[usize], step: &[usize]) -> Location {
    let path = [path, step].concat();
    Location {
        path: path.iter().filter_map(|n| i32::try_from(*n).ok()).collect(),
        leading_comments: Some(" Of CSI before 1.13. Unset, it is not sent.".to_owned()),
        ..Location::default()
    }
}

fn messages_with_secrets(pool: &DescriptorPool) -> Vec<MessageDescriptor> {
    pool.all_messages()
        .filter(|message| message.fields().any(|field| is_secret(&field)))
        .collect()
}

fn is_secret(field: &FieldDescriptor) -> bool {
    field.options().extensions().any(|(extension, value)| {
        extension.full_name() == "csi.v1.csi_secret" && *value == Value::Bool(true)
    })
}

/// Source text of a `Debug` for each message, which names the secret fields and shows nothing of them.
fn redacted_debug(messages: &[MessageDescriptor]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for message in messages {
        let name = message.name();
        let nested = message.parent_message().is_some();
        if nested || message.oneofs().next().is_some() {
            return Err(format!("{name}: a secret in a nested message or beside a oneof").into());
        }
        writeln!(text, "impl ::core::fmt::Debug for {name} {{")?;
        writeln!(
            text,
            "    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{"
        )?;
        writeln!(text, "        f.debug_struct(\"{name}\")")?;
        for field in message.fields() {
            let field_name = field.name();
            if is_secret(&field) {
                writeln!(
                    text,
                    "            .field(\"{field_name}\", &format_args!(\"{{}} redacted\", self.{field_name}.len()))"
                )?;
            } else {
                writeln!(
                    text,
                    "            .field(\"{field_name}\", &self.{field_name})"
                )?;
            }
        }
        writeln!(text, "            .finish()\n    }}\n}}")?;
    }
    Ok(text)
}
