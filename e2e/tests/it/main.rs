//! The system tests: the simulators against their references, and what holds for the workspace.

#[cfg(test)]
mod docs;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod lab_gluster_block;
#[cfg(test)]
mod lab_heketi;
#[cfg(test)]
mod lab_volume;
#[cfg(test)]
mod sim_gd2;
#[cfg(test)]
mod sim_gluster_block;
#[cfg(test)]
mod sim_heketi;
#[cfg(test)]
mod workspace;
