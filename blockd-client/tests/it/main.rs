//! The ssh transport against a real sshd on loopback.

#[cfg(test)]
mod proxy;
#[cfg(test)]
mod ssh;
#[cfg(test)]
mod sshd;
