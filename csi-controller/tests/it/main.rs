//! The controller as its callers see it: over gRPC, on modelled backends.

#[cfg(test)]
mod concurrency;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod create;
#[cfg(test)]
mod delete;
#[cfg(test)]
mod expand;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod gd2;
#[cfg(test)]
mod gd2_server;
#[cfg(test)]
mod heketi;
#[cfg(test)]
mod heketi_server;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod random;
#[cfg(test)]
mod schedule;
#[cfg(test)]
mod secrets;
