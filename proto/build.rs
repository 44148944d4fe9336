//! Compiles the protocol files without a `protoc` program.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/csi.proto"], ["proto"])?;
    // Default stubs: an RPC that a service leaves out answers UNIMPLEMENTED.
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        .build_transport(false)
        .compile_fds(descriptors)?;
    Ok(())
}
