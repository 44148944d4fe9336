//! gluster-block: its vocabulary, a client that proves success, and the transports to gluster-blockd.

pub mod vocabulary;
