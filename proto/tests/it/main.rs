//! Integration tests of the protocol.

#[cfg(test)]
mod descriptor;
#[cfg(test)]
mod secrets;
