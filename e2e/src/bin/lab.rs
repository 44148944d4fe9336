//! The lab from the command line.
fn main() {}
