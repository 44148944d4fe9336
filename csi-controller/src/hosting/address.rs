//! Addresses of storage hosts: gluster-block takes IPv4 addresses only; a backend may know its hosts by name.

use std::net::IpAddr;

use blockd_client::vocabulary::HostAddress;

use super::HostingError;

/// The IPv4 address of a host, asked of the resolver if it is a name.
pub(super) async fn address(name: &str) -> Result<HostAddress, HostingError> {
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let unknown = || HostingError::NoAddress {
        name: name.to_owned(),
    };
    let found = tokio::net::lookup_host((name, 0))
        .await
        .map_err(|_| unknown())?;
    let mut v4: Vec<HostAddress> = found
        .filter_map(|address| match address.ip() {
            IpAddr::V4(ip) => Some(HostAddress::new(ip)),
            IpAddr::V6(_) => None,
        })
        .collect();
    v4.sort();
    v4.first().copied().ok_or_else(unknown)
}
