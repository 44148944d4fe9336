//! The protocol: CSI messages, and the conduct every service owes its callers.
